"""The best of several on one half of the sentences, its share on the other, against hand counts."""

import numpy as np
import torch

from headbook.heads.bootstrap import half_of
from headbook.heads.halves import best

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
