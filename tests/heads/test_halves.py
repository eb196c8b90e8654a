"""The best of several on one half of the sentences, its share on the other, against hand counts."""

import numpy as np
import pytest
import torch

from headbook.heads.bootstrap import half_of, poisson_weights
from headbook.heads.halves import best, shares
from headbook.heads.measure import RatioSums, best_head

HALVES = half_of(torch.arange(40)).numpy()


def test_candidates_that_shine_on_one_half_each_by_hand():
    asked = np.ones((40, 3))
    hits = np.zeros((40, 2, 3))
    hits[HALVES == 0, 0, 0] = hits[HALVES == 1, 1, 0] = 1  # each candidate right on its half
    hits[:, 1, 1] = 1  # the second always right
    hits[:, :, 2] = HALVES[:, None]  # equals on the first half: the first of them
    chosen, share = best(hits, asked)
    assert chosen.tolist() == [0, 1, 0]
    assert (share[1:, :] == share[0]).all() and share[0].tolist() == [0, 1, 1]


def test_shares_by_hand():
    asked = np.array([[2, 0], [1, 0], [1, 0]])
    hits = np.array([[1, 0], [1, 0], [0, 0]])
    found = shares(hits, asked)
    drawn = poisson_weights(torch.arange(3), len(found) - 1).numpy().T
    assert found[0, 0] == 0.5 and np.isnan(found[:, 1]).all()
    for row, weights in zip(found, drawn, strict=True):
        top, below = weights @ hits[:, 0], weights @ asked[:, 0]
        assert np.isnan(row[0]) if below == 0 else row[0] == top / below
    many = shares(np.stack([hits, 2 * hits], 1)[:, :, None], asked, replicates=5)
    np.testing.assert_array_equal(many[:, 1, 0], 2 * found[:6])
    np.testing.assert_array_equal(many[:, 0, 0], found[:6])


def test_each_half_by_hand():
    asked = np.arange(1, 41)[:, None]
    hits = HALVES[:, None] * asked
    assert shares(hits, asked, half=0)[0, 0] == 0 and shares(hits, asked, half=1)[0, 0] == 1
    whole = asked[HALVES == 1].sum() / asked.sum()
    np.testing.assert_allclose(shares(hits > 0, np.ones_like(asked))[0, 0], HALVES.mean())
    np.testing.assert_allclose(shares(hits, asked)[0, 0], whole)


@pytest.fixture(scope="module")
def counts() -> tuple[np.ndarray, np.ndarray]:
    """Of 60 sentences, 2 layers of 3 heads and 4 questions, the last asked in no sentence."""
    generator = np.random.default_rng(5)
    asked = generator.integers(0, 4, (60, 4))
    asked[:, 3] = 0
    return generator.binomial(asked[:, None, None], 0.4, (60, 2, 3, 4)), asked


def test_the_best_and_its_interval_are_those_of_the_streamed_measures(counts):
    hits, asked = map(torch.from_numpy, counts)
    sums = RatioSums.over(hits.double(), asked[:, None, None].double(), torch.arange(60), 200)
    flat = counts[0].reshape(60, 6, 4)
    chosen, share = best(flat, counts[1])
    expected = best_head(sums)
    assert chosen[:3].tolist() == (expected.layer * 3 + expected.head)[:3].tolist()
    np.testing.assert_allclose(share[0], expected.score.numpy())
    low, high = np.nanpercentile(share[1:, :3], [2.5, 97.5], axis=0)
    np.testing.assert_allclose(low, expected.low[:3])
    np.testing.assert_allclose(high, expected.high[:3])
    for half in (None, 0, 1):
        np.testing.assert_allclose(
            shares(counts[0], counts[1], half), sums.replicates(half).numpy()
        )


def test_where_nothing_is_asked_there_is_no_best(counts):
    hits, asked = counts[0].reshape(60, 6, 4), counts[1].copy()
    halves = half_of(torch.arange(60)).numpy()
    asked[halves == 0, 0] = 0  # nothing to choose by
    asked[halves == 1, 1] = 0  # nothing to score on
    hits = np.minimum(hits, asked[:, None])
    chosen, share = best(hits, asked)
    assert chosen[0] == chosen[3] == -1 and chosen[1] >= 0
    assert np.isnan(share[:, [0, 1, 3]]).all() and np.isfinite(share[0, 2])


def test_the_chosen_may_be_scored_on_other_questions(counts):
    hits, asked = counts[0].reshape(60, 6, 4), counts[1]
    chosen, _ = best(hits, asked)
    other = asked[:, None] - hits  # right where it was wrong
    again, share = best(hits, asked, other, asked)
    assert (again == chosen).all()
    expected = shares(other, asked, half=1)[:, chosen[:3], np.arange(3)]
    np.testing.assert_array_equal(share[:, :3], expected)


def test_the_best_of_random_candidates_is_no_better_than_chance():
    generator = np.random.default_rng(7)
    asked = np.ones((400, 25))
    hits = generator.random((400, 200, 25)) < 0.2
    chosen, share = best(hits, asked)
    by = shares(hits, asked, half=0, replicates=0)[0, chosen, np.arange(25)]
    # one question's share has a standard error of .03, the mean of 25 of .006
    assert abs(share[0].mean() - 0.2) < 0.02 and (by > 0.2 + 0.04).all()
    low, high = np.percentile(share[1:], [2.5, 97.5], axis=0)
    assert ((low <= 0.2) & (high >= 0.2)).mean() > 0.7
