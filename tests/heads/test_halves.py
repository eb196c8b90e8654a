"""The best of several on one half of the sentences, its share on the other, against hand counts."""

import numpy as np
import torch

from headbook.heads.bootstrap import half_of, poisson_weights
from headbook.heads.halves import best, shares

HALVES = half_of(torch.arange(40)).numpy()


def test_candidates_that_shine_on_one_half_each_by_hand():
    asked = np.ones((40, 5))
    hits = np.zeros((40, 2, 5))
    hits[HALVES == 0, 0, 0] = hits[HALVES == 1, 1, 0] = 1  # each candidate right on its half
    hits[:, 1, 1] = 1  # the second always right
    hits[:, :, 2] = HALVES[:, None]  # equals on the first half: the first of them
    asked[HALVES == 0, 3] = 0  # nothing to choose by
    asked[HALVES == 1, 4] = 0  # nothing to score on
    chosen, share = best(hits, asked)
    assert chosen.tolist() == [0, 1, 0, -1, 0]
    assert (share[1:, :3] == share[0, :3]).all() and share[0, :3].tolist() == [0, 1, 1]
    assert np.isnan(share[:, 3:]).all()
    again, share = best(hits, asked, 1 - hits, asked)  # scored on other answers
    assert (again == chosen).all() and share[0, :3].tolist() == [1, 0, 0]


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
    np.testing.assert_array_equal(many[:, :, 0], np.stack([found[:6], 2 * found[:6]], 1))
