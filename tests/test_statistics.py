"""Intervals against known answers."""

import numpy as np
import pytest
from scipy import stats

from headbook.statistics import (
    difference,
    drawn_within,
    holm,
    interval,
    over_seeds,
    p_value,
    proportion,
    resampled_mean,
    resampled_median,
    resampled_ratio,
    resampled_within_layers,
    share_not_below,
    within_layers,
)
from headbook.types import UserError


def test_student_interval_of_three_seeds():
    """t with 2 degrees of freedom, 97.5 %: 4.302653 (printed tables); half width t / sqrt(3)."""
    summary = over_seeds([1.0, 2.0, 3.0])
    half = pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert summary.mean == 2.0 and summary.high - 2.0 == half and 2.0 - summary.low == half
    alone = over_seeds([0.5])
    assert alone.mean == 0.5 and np.isnan([alone.low, alone.high]).all()
    assert np.isnan(over_seeds([0.5, np.nan]).mean)  # a missing one is not averaged away


def test_the_interval_of_replicates_leaves_out_missing_ones():
    assert interval([7.0, *range(1001), np.nan]) == pytest.approx((7.0, 25.0, 975.0))
    assert np.isnan(interval([7.0, np.nan])[1:]).all()


def test_a_resampled_mean_is_as_sure_as_its_standard_error():
    values = np.random.default_rng(0).normal(size=400)
    low, high = resampled_mean(values, seed=0)
    assert (high - low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.05)
    for call in (lambda: over_seeds([]), lambda: resampled_mean([1.0], seed=0)):
        with pytest.raises(UserError):
            call()


def test_holm_against_values_computed_by_hand():
    """0.01 · 4, 0.02 · 3, 0.03 · 2 is no less than the one before, 0.04 · 1 neither."""
    assert holm([0.01, 0.04, 0.03, 0.02]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.005, 0.011, 0.02, 0.04, 0.13]) == pytest.approx([0.025, 0.044, 0.06, 0.08, 0.13])
    assert holm([0.6, 0.7]) == pytest.approx([1, 1]) and holm([]).size == 0


def test_p_is_that_of_the_interval_and_over_seeds_of_the_t_test():
    for seeds in (None, 3):
        assert p_value(1.0, 0.0, 2.0, 2.0, seeds) == pytest.approx(0.05)
    values = [0.2, 0.5, 0.4]
    found, known = over_seeds(values), stats.ttest_1samp(values, 0.1).pvalue
    assert p_value(found.mean, found.low, found.high, 0.1, 3) == pytest.approx(known)
    assert p_value(1.0, 1.0, 1.0, 0.0, 3) == 0 and p_value(1.0, 1.0, 1.0, 1.0, 3) == 1


def test_the_share_not_below_a_bound():
    found = share_not_below([0.0, -1, -2], [-0.5, -3, -4], [1.0, 1, -1.5], -1.0)
    assert found == pytest.approx((2 / 3, 1 / 3, 2 / 3))


def test_a_ratio_and_its_resamples_over_sentences():
    hits, counts = np.array([1.0, 0, 3, 2]), np.array([2.0, 1, 3, 4])
    found = resampled_ratio(hits, counts, seed=0)
    assert found[0] == 0.6
    assert 0 <= found[1:].min() < 0.6 < found[1:].max() <= 1
    assert np.isnan(resampled_ratio([0, 1], [0, 0], seed=0)).all()


def test_a_difference_of_two_estimates_by_hand():
    """Newcombe 1998, Table II, 56/70 - 48/80 by method 10: .2000 [.0524, .3339]."""
    first, second = (
        (hits / of, *stats.binomtest(hits, of).proportion_ci(method="wilson"))
        for hits, of in ((56, 70), (48, 80))
    )
    assert difference(first, second) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_ranks_correlate_within_layers_and_heads_are_drawn_within_theirs():
    """Against scipy; a replicate holds, in each layer, heads of that layer alone."""
    first, second = np.random.default_rng(0).normal(size=(2, 3, 8))
    rows = within_layers(first, second)
    known = [stats.spearmanr(*each).statistic for each in zip(first, second, strict=True)]
    assert rows == pytest.approx(known)
    assert resampled_within_layers(first, second)[0] == pytest.approx(np.mean(known))
    drawn = drawn_within([0, 0, 1, 1, 1], replicates=50)
    assert drawn[0].tolist() == [0, 1, 2, 3, 4]
    assert set(drawn[:, :2].ravel()) == {0, 1} and set(drawn[:, 2:].ravel()) == {2, 3, 4}
    layers_apart = np.arange(3)[:, None] * 10.0
    mixed = resampled_within_layers(first + layers_apart, second - layers_apart)
    assert mixed == pytest.approx(resampled_within_layers(first, second))


def test_a_proportion_of_all_or_none_has_its_exact_interval() -> None:
    assert proportion([True] * 10) == pytest.approx((1, 0.025 ** (1 / 10), 1))
    assert proportion([False] * 4) == pytest.approx((0, 0, 1 - 0.025 ** (1 / 4)))


def test_a_median_is_drawn_again_over_rounds_and_no_other_axis() -> None:
    rounds = np.array([[1.0, 10.0], [2.0, 20.0], [9.0, 90.0]])
    found = resampled_median(rounds)
    assert found[0].tolist() == [2, 20] and np.array_equal(10 * found[:, 0], found[:, 1])
    assert {*found[1:, 0]} == {1, 2, 9}
