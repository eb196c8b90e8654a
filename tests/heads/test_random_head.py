"""A head of random weights is attention, and the same in any batch."""

import torch

from headbook.heads.random_head import random_heads
from headbook.models.capture import Point
from headbook.types import Kind


def test_weights_are_attention(corpus) -> None:
    batch = corpus.batch([0, 4, 8, 12, 16])
    for kind in Kind:
        (weights,) = random_heads(batch, kind)[kind, Point.WEIGHTS]
        assert torch.allclose(weights.sum(-1), torch.tensor(1.0), atol=1e-5)
        keys = batch.target_mask if kind is Kind.DECODER else batch.source_mask
        assert (weights.movedim(-1, 1)[~keys] == 0).all()
    assert (random_heads(batch, Kind.DECODER)[Kind.DECODER, Point.WEIGHTS][0].triu(1) == 0).all()


def test_draws_hang_on_the_sentence_alone(corpus) -> None:
    one, two = (random_heads(corpus.batch([8], extra=extra), Kind.ENCODER) for extra in (0, 2))
    both = random_heads(corpus.batch([12, 8], extra=2), Kind.ENCODER)[Kind.ENCODER, Point.WEIGHTS]
    (alone,), (padded,) = one[Kind.ENCODER, Point.WEIGHTS], two[Kind.ENCODER, Point.WEIGHTS]
    size = alone.shape[-1]
    assert torch.allclose(both[0][1:, :, :size, :size], alone)
    assert torch.allclose(padded[..., :size, :size], alone)
    assert not torch.allclose(both[0][0], both[0][1])
