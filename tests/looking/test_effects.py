"""Effects of interventions, sentence by sentence."""

from functools import partial

import numpy as np
import torch

import headbook as hb
from headbook.looking.effects import effects
from headbook.looking.ours import OurModel
from headbook.models.gates import all_heads, closed

SENTENCES = ("the dog sees a red ball often", "the cat", "a tree finds the dog", "the ball likes")


def test_a_sentence_has_its_own_effects_whatever_batch_it_is_in(ours: OurModel) -> None:
    """Batches are in the order of lengths, effects in that of the sentences."""
    heads = [partial(closed, ours.network, [head]) for head in all_heads(ours.network)[:3]]
    batches = ours.batches(SENTENCES, SENTENCES)
    assert torch.cat([batch.sentences for batch in batches]).tolist() != [0, 1, 2, 3]
    found = effects(ours, batches, heads)
    assert found.sentences.tolist() == [0, 1, 2, 3]
    for number, sentence in enumerate(SENTENCES):
        alone = effects(ours, ours.batches([sentence], [sentence]), heads)
        torch.testing.assert_close(found.added[:, number], alone.added[:, 0], rtol=1e-4, atol=1e-5)
        assert found.weights[number] == alone.weights[0]


def test_a_loss_is_the_cross_entropy_of_each_sentence_read_alone(ours: OurModel) -> None:
    nats, tokens = hb.loss(ours, ours.batches(SENTENCES, SENTENCES, tokens=16))
    for number, sentence in enumerate(SENTENCES):
        (batch,) = ours.batches([sentence], [sentence])
        wanted = ours.losses(batch).tolist()
        assert np.isclose(nats[number], sum(wanted), rtol=1e-4)
        assert tokens[number] == len(wanted) == len(ours.pieces(sentence, target=True))
