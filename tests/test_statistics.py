"""Intervals against known answers."""

import numpy as np
import pytest
from scipy import stats

from headbook.statistics import (
    binomial_interval,
    difference,
    holm,
    of_type,
    over_seeds,
    p_value,
    partial_spearman,
    percentile_interval,
    permuted_gap,
    resampled_mean,
    resampled_ratio,
    share_not_below,
    spearman,
)
from headbook.types import UserError


def test_student_interval_of_three_seeds():
    summary = over_seeds([1.0, 2.0, 3.0])
    # t with 2 degrees of freedom, 97.5 %: 4.302653 (printed tables); half width t / sqrt(3).
    assert summary.mean == 2.0 and summary.spread == 1.0 and summary.count == 3
    assert summary.high - 2.0 == pytest.approx(4.302653 / np.sqrt(3), rel=1e-6)
    assert summary.low == pytest.approx(4.0 - summary.high)


def test_one_seed_has_a_mean_and_no_spread():
    summary = over_seeds([0.5])
    assert summary.mean == 0.5 and summary.count == 1
    assert np.isnan([summary.spread, summary.low, summary.high]).all()


def test_a_missing_seed_is_not_averaged_away():
    assert np.isnan(over_seeds([0.5, np.nan]).mean)


def test_percentile_interval_of_a_known_list():
    assert percentile_interval(range(1001)) == pytest.approx((25.0, 975.0))
    assert percentile_interval(range(101), level=0.8) == pytest.approx((10.0, 90.0))
    assert np.isnan(percentile_interval([0.1, np.nan, 0.3])).all()


def test_binomial_interval_of_printed_tables():
    # 95 % limits of 0 in n are 0 and 1 - 0.025^(1/n); of 1 in 10 tables give 0.0025 and 0.4450.
    assert binomial_interval(0, 6) == pytest.approx((0.0, 1 - 0.025 ** (1 / 6)))
    assert binomial_interval(1, 10) == pytest.approx((0.0025, 0.4450), abs=5e-5)
    assert binomial_interval(4, 4) == pytest.approx((0.025 ** (1 / 4), 1.0))
    assert np.isnan(binomial_interval(0, 0)).all()


def test_resampled_mean_covers_the_mean_at_about_its_level():
    draws = np.random.default_rng(0).exponential(size=(200, 60))
    held = [
        low <= 1.0 <= high
        for low, high in (resampled_mean(d, seed=i, resamples=400) for i, d in enumerate(draws))
    ]
    assert 0.88 <= np.mean(held) <= 0.99


def test_resampled_mean_repeats_at_the_same_seed_only():
    values = np.random.default_rng(1).normal(size=40)
    assert resampled_mean(values, seed=3) == resampled_mean(values, seed=3)
    assert resampled_mean(values, seed=3) != resampled_mean(values, seed=4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: over_seeds([]),
        lambda: percentile_interval([1.0]),
        lambda: resampled_mean([1.0], seed=0),
    ],
)
def test_too_little_is_said(call):
    with pytest.raises(UserError):
        call()


def test_holm_against_values_computed_by_hand():
    """0.01 · 4, 0.02 · 3, 0.03 · 2 is no less than the one before, 0.04 · 1 neither."""
    assert holm([0.01, 0.04, 0.03, 0.02]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.005, 0.011, 0.02, 0.04, 0.13]) == pytest.approx([0.025, 0.044, 0.06, 0.08, 0.13])
    assert holm([0.6, 0.7]) == pytest.approx([1, 1]) and holm([]).size == 0


@pytest.mark.parametrize("seeds", [None, 2, 3, 10])
def test_a_threshold_at_the_end_of_an_interval_has_p_of_the_level(seeds):
    assert p_value(1.0, 0.0, 2.0, 0.0, seeds) == pytest.approx(0.05)
    assert p_value(1.0, 0.0, 2.0, 2.0, seeds) == pytest.approx(0.05)
    assert p_value(1.0, 0.0, 2.0, 1.0, seeds) == pytest.approx(1)


def test_p_over_seeds_is_that_of_the_t_test():
    values = [0.2, 0.5, 0.4]
    found = over_seeds(values)
    known = stats.ttest_1samp(values, 0.1).pvalue
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
    twice = resampled_ratio(2 * hits, counts, seed=0)
    np.testing.assert_allclose(twice, 2 * found)
    assert np.isnan(resampled_ratio([0, 1], [0, 0], seed=0)).all()


def test_a_types_number_is_its_own():
    numbers = [of_type(f"w{n}", 0) for n in range(500)]
    assert numbers == [of_type(f"w{n}", 0) for n in range(500)]
    assert 0 <= min(numbers) < 0.05 and 0.95 < max(numbers) < 1
    assert of_type("w1", 0) != of_type("w1", 1)


def test_partial_spearman_is_what_a_third_measure_leaves() -> None:
    noise = np.random.default_rng(0)
    shared, own = noise.random((2, 400))
    first, second = shared + 0.1 * noise.random(400), shared + 0.1 * noise.random(400)
    assert spearman(np.stack([first, second]))[0, 1] > 0.9
    assert abs(partial_spearman(first, second, shared[None])) < 0.15
    assert partial_spearman(shared + own, own, shared[None]) > 0.9
    nothing = np.zeros((1, 400))
    plain = spearman(np.stack([first, own]))[0, 1]
    assert partial_spearman(first, own, nothing) == pytest.approx(plain)
    assert np.isnan(partial_spearman(shared, own, shared[None]))


def test_a_difference_of_two_estimates_by_hand():
    """Newcombe 1998, Table II, 56/70 - 48/80 by method 10: .2000 [.0524, .3339]."""
    first, second = (
        (hits / of, *stats.binomtest(hits, of).proportion_ci(method="wilson"))
        for hits, of in ((56, 70), (48, 80))
    )
    assert difference(first, second) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert difference(second, first) == pytest.approx((-0.2, -0.3339, -0.0524), abs=5e-5)


def test_a_gap_of_two_labelled_heads_is_judged_by_permutation():
    """The two best of twelve stand out, the first and the sixth do not, however alike they are."""
    shares = np.linspace(1, 0, 12)
    best, some = np.zeros((2, 12), bool)
    best[:2] = some[[0, 5]] = True
    found = permuted_gap(shares, best)
    assert found[0] == pytest.approx(shares[:2].mean() - shares[2:].mean())
    lows = [percentile_interval(permuted_gap(shares, each)[1:])[0] for each in (best, some)]
    assert lows[0] > 0 > lows[1]
    assert np.isnan(permuted_gap(shares, np.zeros(12, bool))).all()
