"""How scores order kept heads: counted by hand, and against enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from headbook.statistics import block_matched_share, group_means, pair_share


def brute_force(scores: np.ndarray, kept: np.ndarray) -> float:
    """Mean over the points of the share of pairs, pair by pair."""
    shares = []
    for row in kept:
        pairs = list(product(scores[row], scores[~row]))
        shares.append(np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs]))
    return float(np.mean(shares))


def test_group_means_are_plain_first_and_then_resampled_within_the_group():
    mixed, constant, empty = group_means([np.array([0.0, 1.0]), np.ones(4), np.array([])])
    assert mixed[0] == 0.5 and set(mixed[1:]) == {0.0, 0.5, 1.0}
    assert (constant == 1).all() and np.isnan(empty).all()
    assert mixed[1:].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("scores", "kept", "expected"),
    [
        ([1.0, 2.0, 3.0, 4.0], [[0, 0, 1, 1]], 1.0),
        ([1.0, 2.0, 3.0, 4.0], [[1, 1, 0, 0]], 0.0),
        ([1.0, 2.0, 3.0, 4.0], [[0, 1, 0, 1]], 0.75),
        ([5.0, 5.0, 5.0, 5.0], [[0, 1, 0, 1]], 0.5),
        ([1.0, np.nan, 3.0, 4.0], [[0, 1, 0, 1]], 1.0),
        ([1.0, 2.0, 3.0, 4.0], [[0, 0, 1, 1], [1, 1, 0, 0]], 0.5),
    ],
)
def test_pairs_by_hand(scores: list[float], kept: list[list[int]], expected: float):
    assert pair_share(np.array(scores), np.array(kept, dtype=bool))[0] == expected


def test_pairs_against_counting_them_one_by_one():
    noise = np.random.default_rng(1)
    scores = noise.integers(5, size=24).astype(float)
    kept = noise.random((5, 24)) < 0.4
    shares = pair_share(scores, kept)
    assert shares[0] == pytest.approx(brute_force(scores, kept))
    low, high = np.nanquantile(shares[1:], [0.025, 0.975])
    assert low < shares[0] < high


def test_no_pair_gives_no_number():
    scores, everything = np.arange(4.0), np.ones((1, 4), dtype=bool)
    assert np.isnan(pair_share(scores, everything)).all()
    assert np.isnan(pair_share(scores, everything[:0])).all()
    assert np.isnan(pair_share(np.full(4, np.nan), everything)).all()
    assert np.isnan(block_matched_share(scores, everything, [0, 0, 1, 1]))


def test_random_heads_of_the_same_blocks_against_enumeration():
    scores = np.random.default_rng(2).random(7)
    blocks = [0, 0, 0, 1, 1, 1, 1]
    kept = np.array([[1, 1, 0, 1, 0, 0, 0]], dtype=bool)
    drawn = []
    for low, high in product(combinations(range(3), 2), combinations(range(3, 7), 1)):
        row = np.zeros(7, dtype=bool)
        row[[*low, *high]] = True
        drawn.append(brute_force(scores, row[None]))
    assert len(drawn) == 12
    assert block_matched_share(scores, kept, blocks) == pytest.approx(np.mean(drawn))


def test_whole_blocks_leave_nothing_to_chance():
    scores, kept = np.arange(4.0), np.array([[0, 0, 1, 1]], dtype=bool)
    assert block_matched_share(scores, kept, [0, 0, 1, 1]) == 1.0
    assert block_matched_share(scores, kept, [0, 0, 0, 0]) == 0.5
