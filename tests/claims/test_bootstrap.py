"""Intervals against known answers."""

import numpy as np
import pytest

from headbook.claims.bootstrap import over_seeds, percentile_interval, resampled_mean
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
