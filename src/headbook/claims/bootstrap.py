"""Intervals: from bootstrap replicates of one model, and over the seeds of several."""

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
