"""The student's network: two ways through the decoder, gates, padding."""

import torch
from blocks import alone, for_student

from headbook.released.firefox import FirefoxModel

LENGTHS = ((1, 33), (2, 9), (9, 2), (33, 1))


def test_all_at_once_is_step_by_step(en_pt: FirefoxModel) -> None:
    network, batch = en_pt.network, for_student(LENGTHS, 32_000)
    with torch.no_grad():
        memory, mask = network.encode(batch.source, batch.source_mask)
        at_once = network.decode(batch.target_in, memory, mask)
        state = network.empty_cache()
        steps = [
            network.decode(batch.target_in[:, at : at + 1], memory, mask, state)
            for at in range(batch.target_in.shape[1])
        ]
    torch.testing.assert_close(torch.cat(steps, dim=1), at_once, atol=2e-4, rtol=1e-4)


def test_padding_changes_nothing(en_pt: FirefoxModel) -> None:
    network, batch = en_pt.network, for_student(LENGTHS, 32_000)
    with torch.no_grad():
        memory, _ = network.encode(batch.source, batch.source_mask)
        states = network.states(batch)
        for row in range(len(batch)):
            single = alone(batch, row)
            own, mask = network.encode(single.source, single.source_mask)
            assert mask is None
            source, target = own.shape[1], single.target_in.shape[1]
            torch.testing.assert_close(memory[row, :source], own[0], atol=2e-4, rtol=1e-4)
            torch.testing.assert_close(
                states[row, :target], network.states(single)[0], atol=2e-4, rtol=1e-4
            )
