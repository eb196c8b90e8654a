"""Diversity of heads: known answers; padding does not count. Its formulas one by one are in
training/test_regularising.py, the terms of which they are."""

import pytest
import torch
from blocks import drawn
from torch import Tensor
from torch.nn import functional

from headbook.heads.diversity import alignment, cosines, counted_maps, products, variance
from headbook.heads.scores import entropy
from headbook.models.capture import Point
from headbook.types import Kind

DIM = 4


def pair(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Two heads [token, dim] as a batch of one sentence; what stands at padding is no number."""
    both = functional.pad(torch.stack([one, other])[None], (0, 0, 0, 1), value=torch.nan)
    return both, torch.arange(len(one) + 1)[None] < len(one)


def test_heads_whose_likeness_is_known():
    """Aligned and cosine of: the same head twice, one turned, tokens apart, nothing."""
    one, turn = drawn(2000, DIM), torch.linalg.qr(drawn(DIM, DIM, seed=2)).Q
    half = torch.arange(2000)[:, None] < 1000
    known = {
        "times -2": (-2 * one, 1.0, -1.0),
        "turned": (one @ turn, 1.0, float(turn.trace() / DIM)),
        "at other tokens": (None, 0.0, 0.0),
        "zero": (torch.zeros_like(one), 0.0, 0.0),
    }
    for name, (other, aligned, cosine) in known.items():
        both = pair(one, other) if other is not None else pair(one * half, one * ~half)
        assert float(alignment(products(*both))[0, 1]) == pytest.approx(aligned, abs=1e-6), name
        found = float(cosines(*both)[0, 1] / 2000)
        assert found == pytest.approx(cosine, abs=0.05), name


def test_maps_of_a_batch_are_those_of_its_sentences(corpus, attention):
    whole = corpus.batch([4, 8, 12], extra=3)
    (recorded, _) = attention(whole)[Kind.ENCODER, Point.WEIGHTS]
    garbled = recorded.masked_fill(~whole.source_mask[:, None, :, None], torch.nan)
    found, queries = entropy({(Kind.ENCODER, Point.WEIGHTS): [garbled]}, whole)
    spread, most = variance(counted_maps(garbled, whole, Kind.ENCODER), whole.source_mask)
    rows, total = [], 0
    for at in range(3):
        size = int(whole.source_mask[at].sum())
        own = recorded[at, :, :size, :size].double()
        torch.testing.assert_close(spread[at], own.var(1, correction=0).sum(-1))
        torch.testing.assert_close(most[at], 1 - own.mean(1).square().sum(-1))
        rows, total = [*rows, -(own * own.log()).sum((1, 2))], total + size
    shown = (found.sum(0) / queries.sum(0))[0]
    torch.testing.assert_close(shown, sum(rows) / total, rtol=1e-6, atol=1e-8)
