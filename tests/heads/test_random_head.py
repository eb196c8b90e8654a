"""A head of random weights scores what chance gives."""

import known_heads as planted
import torch

from headbook.heads.random_head import random_heads
from headbook.heads.rare import RareChance, RareShare
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.models.capture import Point
from headbook.types import Kind


def test_weights_are_attention(corpus) -> None:
    batch = corpus.batch(list(range(10)))
    for kind in Kind:
        (weights,) = random_heads(batch, kind, heads=3)[kind, Point.WEIGHTS]
        assert torch.allclose(weights.sum(-1), torch.tensor(1.0), atol=1e-5)
        keys = batch.target_mask if kind is Kind.DECODER else batch.source_mask
        assert (weights.movedim(-1, 1)[~keys] == 0).all()
    assert (random_heads(batch, Kind.DECODER)[Kind.DECODER, Point.WEIGHTS][0].triu(1) == 0).all()


def test_draws_hang_on_the_sentence_and_the_head_alone(corpus) -> None:
    one = random_heads(corpus.batch([7]), Kind.ENCODER, heads=2)[Kind.ENCODER, Point.WEIGHTS][0][0]
    other = random_heads(corpus.batch([3, 7], extra=2), Kind.ENCODER, 2, 2)
    first, second = other[Kind.ENCODER, Point.WEIGHTS]
    size = one.shape[-1]
    assert torch.allclose(first[1, :, :size, :size], one)
    assert not torch.allclose(first[1, 0], first[1, 1])
    assert not torch.allclose(first[1], second[1]) and not torch.allclose(first[0], first[1])


def test_scores_chance(corpus, ranks) -> None:
    batch = corpus.batch(list(range(60)))
    tape = random_heads(batch, Kind.ENCODER, heads=40)
    rare, chance = RareShare(ranks), RareChance(ranks)
    rare.update(tape, batch)
    chance.update({}, batch)
    assert torch.allclose(rare.compute().mean((0, 1)), chance.compute()[0, 0], atol=0.02)


def test_is_far_from_a_planted_head(corpus) -> None:
    batch = corpus.batch(list(range(60)))
    measure = SyntacticAccuracy(corpus.trees)
    measure.update(planted.recording([planted.at_partner(batch, corpus.trees, 0)]), batch)
    assert measure.compute()[0, 0, 0] == 1
