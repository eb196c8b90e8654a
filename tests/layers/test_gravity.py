"""Centres of gravity of profiles that are known."""

import numpy as np
import pytest

from headbook.layers.gravity import centre, expected


def test_a_level_profile_lies_in_the_middle_and_gains_nothing():
    assert centre(np.full(7, 0.8)) == pytest.approx(0.5)
    assert np.isnan(expected(np.full(7, 0.8)))


def test_a_property_of_one_layer_lies_there():
    for layer in range(7):
        assert centre(np.eye(7)[layer]) == pytest.approx(layer / 6)
    assert expected(np.array([0, 0, 1, 1, 0.0])) == pytest.approx(0.5)


def test_gains_count_over_the_best_layer_below():
    scores = np.array([0.2, 0.6, 0.4, 0.8])
    assert expected(scores) == pytest.approx((0.4 * 1 + 0.2 * 3) / 3 / 0.6)


def test_batches_and_negative_scores():
    scores = np.array([[0.0, 1.0, -5.0], [-1.0, -1.0, -1.0]])
    found = centre(scores)
    assert found[0] == pytest.approx(0.5) and np.isnan(found[1])
