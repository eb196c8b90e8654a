"""Importance by gradient: at every position by brute force, whatever the batch, 0 where silent."""

import pytest
import torch
from torch import Tensor

from headbook.looking.importance import by_gradient
from headbook.looking.ours import OurModel
from headbook.looking.text import Text
from headbook.models.gates import all_heads, closed
from headbook.text.batches import Batch
from headbook.types import Kind


def translated(ours: OurModel, sample: Text, tokens: int = 2048) -> list[Batch]:
    return ours.batches(sample.sentences[:3], sample.sentences[1:4], tokens)


def at_every_position(ours: OurModel, batch: Batch, block: torch.nn.Module, real: Tensor) -> Tensor:
    """∂L/∂ξ for a ξ of each position and head of one block, by a hook before W_O."""
    values = torch.ones(*real.shape, block.heads, requires_grad=True)

    def multiply(_: torch.nn.Module, inputs: tuple) -> Tensor:
        return inputs[0] * values.repeat_interleave(inputs[0].shape[-1] // block.heads, dim=-1)

    handle = block.output.register_forward_pre_hook(multiply)
    (gradient,) = torch.autograd.grad(ours.losses(batch).sum(), values)
    handle.remove()
    return gradient


@pytest.mark.parametrize("positions", [False, True])
def test_it_is_that_of_a_multiplier_of_each_sentence_or_position(
    positions: bool, ours: OurModel, sample: Text
):
    (batch,) = translated(ours, sample)
    expected = []
    for kind, _, block in ours.network.attentions():
        real = batch.source_mask if kind is Kind.ENCODER else batch.target_mask
        each = at_every_position(ours, batch, block, real)
        expected.append((each[real] if positions else each.sum(1)).abs().mean(0))
    found = by_gradient(ours, translated(ours, sample, 1), positions=positions).ratio()
    torch.testing.assert_close(found, torch.cat(expected).double(), rtol=1e-4, atol=1e-9)
    cross = [head.kind is Kind.CROSS for head in all_heads(ours.network)]
    part = by_gradient(ours, [batch], kinds=[Kind.CROSS], positions=positions).ratio()
    torch.testing.assert_close(part, found[torch.tensor(cross)], rtol=1e-6, atol=1e-12)


def test_a_closed_head_scores_nothing_and_no_gradient_is_left(ours: OurModel, sample: Text):
    every = all_heads(ours.network)
    with closed(ours.network, [every[1]]):
        found = by_gradient(ours, translated(ours, sample), positions=True).ratio()
    assert found[1] == 0 and (found > 0).sum() == len(every) - 1
    assert all(each.grad is None for each in ours.network.parameters())
