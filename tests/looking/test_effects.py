"""Effects of interventions, sentence by sentence."""

from functools import partial

import pytest
import torch

import headbook as hb
from headbook.looking.effects import effects
from headbook.looking.ours import OurModel
from headbook.models.gates import all_heads, closed

SENTENCES = ("the dog sees a red ball often", "the cat", "a tree finds the dog", "the ball likes")


def test_a_sentence_has_its_own_loss_and_effects_whatever_batch_it_is_in(ours: OurModel) -> None:
    """Batches are in the order of lengths, effects in that of the sentences."""
    heads = all_heads(ours.network)[:3]
    batches = ours.batches(SENTENCES, SENTENCES, tokens=16)
    assert torch.cat([batch.sentences for batch in batches]).tolist() != [0, 1, 2, 3]
    nats, tokens = hb.loss(ours, batches)
    added = effects(ours, batches, [partial(closed, ours.network, [head]) for head in heads]).added
    for number, sentence in enumerate(SENTENCES):
        (batch,) = ours.batches([sentence], [sentence])
        whole = ours.losses(batch).tolist()
        assert nats[number] == pytest.approx(sum(whole), rel=1e-4)
        assert tokens[number] == len(whole) == len(ours.pieces(sentence, target=True))
        for head, found in zip(heads, added[:, number].tolist(), strict=True):
            with closed(ours.network, [head]):
                wanted = sum(ours.losses(batch).tolist()) - sum(whole)
            assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
