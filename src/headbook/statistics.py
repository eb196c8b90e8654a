"""Intervals within one model and over seeds, and tests of many things at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from headbook.types import UserError

LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """Mean over seeds; `spread` is the sample standard deviation, low and high the interval.

    With a single seed spread, low and high are NaN: nothing is known about other seeds.
    """

    mean: float
    spread: float
    low: float
    high: float
    count: int


def percentile_interval(replicates: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """The percentile interval of bootstrap replicates, shape (replicate,); NaN among them spreads.

    UserError when there are fewer than two replicates.
    """
    values = np.asarray(replicates, dtype=float)
    if values.size < 2:
        raise UserError("an interval needs at least two bootstrap replicates; raise their number")
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def over_seeds(values: ArrayLike, level: float = LEVEL) -> Summary:
    """Mean over seeds with Student's interval, shape (seed,): mean ± t · spread / √count.

    UserError when there is no value. A NaN among the values makes every number NaN.
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.size == 0:
        raise UserError("nothing to summarise: no seed has a value")
    mean = float(numbers.mean())
    if numbers.size == 1:
        return Summary(mean, np.nan, np.nan, np.nan, 1)
    spread = float(numbers.std(ddof=1))
    half = stats.t.ppf((1 + level) / 2, numbers.size - 1) * spread / np.sqrt(numbers.size)
    return Summary(mean, spread, mean - float(half), mean + float(half), int(numbers.size))


def resampled_mean(
    values: ArrayLike, seed: int, resamples: int = 2000, level: float = LEVEL
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of independent values, shape (value,).

    For measurements that are one number a sentence. UserError for fewer than two values.
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.size < 2:
        raise UserError("an interval of a mean needs at least two values")
    found = stats.bootstrap(
        (numbers,),
        np.mean,
        n_resamples=resamples,
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(found.low), float(found.high)


def share_not_below(
    values: ArrayLike, lows: ArrayLike, highs: ArrayLike, bound: float
) -> tuple[float, float, float]:
    """Share of the values, shape (value,), at or above a bound, and its bounds by their intervals.

    The low end counts those whose whole interval lies there, the high end those of which any part
    does: equivalence is shown, not inferred from a difference that is not significant.
    """
    low, value, high = (
        float((np.asarray(numbers, dtype=float) >= bound).mean())
        for numbers in (lows, values, highs)
    )
    return value, low, high


def p_value(value: float, low: float, high: float, threshold: float, seeds: int | None) -> float:
    """Two-sided p of a value against a threshold, from its symmetric interval at LEVEL.

    Student's distribution with seeds - 1 degrees of freedom, the normal one where seeds is None.
    """
    known = stats.norm() if seeds is None else stats.t(seeds - 1)
    error = (high - low) / 2 / known.ppf((1 + LEVEL) / 2)
    distance = abs(value - threshold)
    if error == 0:
        return 0.0 if distance else 1.0
    return float(2 * known.sf(distance / error))


def holm(p_values: ArrayLike) -> np.ndarray:
    """Adjusted p-values, shape (test,), in the order given (Holm 1979).

    The i-th smallest of m is multiplied by m - i + 1; none is below a smaller one, nor above 1.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    raised = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(raised), 1)
    return adjusted
