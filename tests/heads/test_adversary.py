"""The farthest weights: no allowed weights are farther, and cases worked by hand."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from headbook.heads.adversary import farthest, jensen_shannon


def test_jensen_shannon_is_scipys():
    first, second = np.random.default_rng(0).dirichlet(np.ones(7), size=2)
    assert jensen_shannon(first, second) == pytest.approx(jensenshannon(first, second) ** 2)
    assert jensen_shannon(np.array([1.0, 0]), np.array([0, 1.0])) == pytest.approx(math.log(2))


def output(weights, scores):
    return 1 / (1 + np.exp(-(weights @ scores)))


@pytest.mark.parametrize("seed", range(6))
def test_no_allowed_weights_are_farther(seed):
    noise = np.random.default_rng(seed)
    weights, scores = noise.dirichlet(np.full(5, 0.7)), noise.normal(size=5) * 2
    found, adversary = farthest(weights, scores, 0.05)
    assert adversary.min() >= 0 and adversary.sum() == pytest.approx(1)
    assert abs(output(adversary, scores) - output(weights, scores)) <= 0.05 + 1e-9
    assert jensen_shannon(adversary, weights) == pytest.approx(found)
    # a million tries: sparse ones come near the corners, and their mixtures with α are allowed, too
    tried = noise.dirichlet(np.full(5, 0.05), size=200_000)
    tried = np.concatenate([tried, *(tried * t + weights * (1 - t) for t in (0.25, 0.5, 0.75))])
    allowed = np.abs(output(tried, scores) - output(weights, scores)) <= 0.05
    rivals = jensen_shannon(tried[allowed], np.broadcast_to(weights, tried[allowed].shape))
    assert rivals.max() <= found + 1e-9
    assert rivals.max() > 0.8 * found


def test_where_scores_are_equal_everything_is_allowed():
    weights = np.array([0.7, 0.2, 0.1])
    found, adversary = farthest(weights, np.ones(3), 0.01)
    assert adversary.tolist() == [0, 0, 1]
    assert found == pytest.approx(jensen_shannon(adversary, weights))


def test_where_one_word_decides_nothing_is_found():
    found, _ = farthest(np.array([1.0, 0, 0]), np.array([9.0, 0, 0]), 1e-5)
    assert found < 0.05
