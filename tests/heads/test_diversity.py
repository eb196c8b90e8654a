"""Diversity of heads: known answers, and a plain form of every formula; padding does not count."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from headbook.heads.diversity import (
    alignment,
    cosines,
    counted_maps,
    mean_of_pairs,
    overlaps,
    products,
    sentence_means,
    unit,
    variance,
)
from headbook.heads.scores import entropy
from headbook.models.capture import Point
from headbook.types import Kind

HEADS, DIM, SIZE = 3, 4, 12
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
"""Two sentences, of five tokens and of three."""


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def vectors() -> Tensor:
    """What stands at padding is no number."""
    return drawn(2, HEADS, 5, DIM).masked_fill(~REAL[:, None, :, None], torch.nan)


def pair(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Two heads [token, dim] as a batch of one sentence."""
    return torch.stack([one, other])[None], torch.ones(1, len(one), dtype=torch.bool)


def close(found: Tensor, expected: float) -> bool:
    return float(found) == pytest.approx(expected, abs=1e-6)


def test_products_and_alignment_are_what_plain_loops_give():
    rows = vectors().double()
    heads = [torch.cat([rows[0, h], rows[1, h, :3]]) for h in range(HEADS)]
    found = products(vectors(), REAL)
    aligned = alignment(found)
    for i, j in product(range(HEADS), repeat=2):
        gram = heads[i].T @ heads[j]
        torch.testing.assert_close(found[i, j], gram)
        own = (heads[i].T @ heads[i]).norm() * (heads[j].T @ heads[j]).norm()
        assert close(aligned[i, j], float(gram.norm() / own.sqrt()))


def test_cosines_are_torch_s_at_every_token_that_counts():
    found = cosines(vectors(), REAL)
    for i, j in product(range(HEADS), repeat=2):
        each = cosine_similarity(vectors()[:, i], vectors()[:, j], dim=-1)
        for sentence, length in enumerate((5, 3)):
            assert close(found[sentence, i, j], float(each[sentence, :length].sum()))


def test_heads_whose_likeness_is_known():
    """Aligned and cosine of: the same head twice, one turned, tokens apart, unrelated, nothing."""
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
        assert close(alignment(products(*both))[0, 1], aligned), name
        found = float(cosines(*both)[0, 0, 1] / 2000)
        assert found == pytest.approx(cosine, abs=0.05), name
    unrelated = pair(one, drawn(2000, DIM, seed=3))
    assert alignment(products(*unrelated))[0, 1] < 0.1
    assert abs(cosines(*unrelated)[0, 0, 1] / 2000) < 0.05


def test_a_head_of_nothing_gives_no_gradient_without_end():
    both = pair(drawn(6, DIM), torch.zeros(6, DIM))[0].requires_grad_()
    tokens = torch.ones(1, 6, dtype=torch.bool)
    (alignment(products(both, tokens)).sum() + cosines(both, tokens).sum()).backward()
    assert both.grad.isfinite().all()


def test_means_of_sentences_and_of_pairs_by_hand():
    means = sentence_means(vectors(), REAL)
    torch.testing.assert_close(means[1], vectors()[1, :, :3].double().mean(1))
    assert unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).flatten().tolist() == pytest.approx(
        [0.6, 0.8, 0, 0]
    )
    assert mean_of_pairs(torch.tensor([[9.0, 1.0], [2.0, 9.0]])) == 1.5


def maps() -> Tensor:
    """Each token itself, the next one, the first one, all alike."""
    first, uniform = torch.zeros(SIZE, SIZE), torch.full((SIZE, SIZE), 1 / SIZE)
    first[:, 0] = 1
    heads = [torch.eye(SIZE), torch.eye(SIZE).roll(1, dims=1), first, uniform]
    return torch.stack(heads)[None]


def test_maps_by_hand():
    found = overlaps(maps())[0] / SIZE
    assert found[0].tolist() == pytest.approx([1, 0, 1 / SIZE, 1 / SIZE])
    spread, most = variance(maps().double(), torch.ones(1, SIZE, dtype=torch.bool))
    # of a column of the identity: mean 1/n, so variance 1/n - 1/n²; of n columns n times as much
    assert spread[0].tolist() == pytest.approx([1 - 1 / SIZE, 1 - 1 / SIZE, 0, 0], abs=1e-6)
    assert most[0].tolist() == pytest.approx([1 - 1 / SIZE, 1 - 1 / SIZE, 0, 1 - 1 / SIZE])
    torch.testing.assert_close(spread, maps().double().var(2, correction=0).sum(-1))


def test_maps_of_a_batch_are_those_of_its_sentences(corpus, attention):
    whole = corpus.batch([4, 5, 6], extra=3)
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
