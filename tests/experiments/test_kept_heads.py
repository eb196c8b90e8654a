"""Which heads gates keep: planted gates that hold on to heads near a role, to none, to a layer."""

import numpy as np
import pytest

from headbook.experiments.kept_heads import gap, nearer, nearer_by_layer
from headbook.statistics import interval

LAYERS = np.repeat([1, 2], 6)


def test_gates_that_keep_what_is_near_are_told_from_gates_that_keep_a_layer() -> None:
    near = np.tile(np.linspace(0, 1, 6), 2) + np.repeat([0.0, 0.01], 6)
    best = np.stack([near > bound for bound in (0.3, 0.5, 0.7)])
    value, low, _ = interval(nearer(near, best))
    assert value == 1 and low > 0.9 and nearer_by_layer(near, best, LAYERS) < 0.6
    upper = near + LAYERS  # all heads of the second layer are nearer
    whole = np.array([LAYERS == 2])
    assert nearer(upper, whole)[0] == nearer_by_layer(upper, whole, LAYERS) == 1


def test_chance_of_a_layer_is_that_of_every_draw() -> None:
    """Two of three heads are kept: by hand the mean over the three ways to keep two."""
    near, kept = np.array([3.0, 1.0, 2.0]), np.array([[True, True, False]])
    ways = [nearer(near, ~np.eye(3, dtype=bool)[[out]])[0] for out in range(3)]
    assert nearer_by_layer(near, kept, np.zeros(3)) == pytest.approx(np.mean(ways))


def test_a_gap_of_two_labelled_heads_is_judged_by_permutation() -> None:
    """The two best of twelve stand out, the first and the sixth do not, however alike they are."""
    shares = np.linspace(1, 0, 12)
    best, some = np.zeros((2, 12), bool)
    best[:2] = some[[0, 5]] = True
    assert gap(shares, best)[0] == pytest.approx(shares[:2].mean() - shares[2:].mean())
    lows = [interval(gap(shares, each))[1] for each in (best, some)]
    assert lows[0] > 0 > lows[1]
    assert np.isnan(gap(shares, np.zeros(12, bool))).all()
