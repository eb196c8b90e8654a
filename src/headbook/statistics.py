"""Intervals, resampling and rank correlation; adjusted tests of many things at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar
from zlib import crc32

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from scipy import stats

from headbook.types import UserError

LEVEL = 0.95
REPLICATES = 1000
WITHIN_GROUPS = 1038005142
"""Seed: published intervals come out the same when they are computed again."""

Item = TypeVar("Item")
Replicates = Float[np.ndarray, " replicate"]
"""A number as it is, and then as its resamples have it."""


@dataclass(frozen=True)
class Summary:
    """Mean over so many seeds, and the ends of its interval."""

    mean: float
    low: float
    high: float
    count: int


def over_seeds(values: ArrayLike) -> Summary:
    """Mean over seeds with Student's 95 % interval, shape (seed,): mean ± t · spread / √count.

    The interval of a single seed is NaN: nothing is known about others. UserError when there is no
    value. A NaN among the values makes every number NaN.
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.size == 0:
        raise UserError("nothing to summarise: no seed has a value")
    mean = float(numbers.mean())
    if numbers.size == 1:
        return Summary(mean, np.nan, np.nan, 1)
    error = numbers.std(ddof=1) / np.sqrt(numbers.size)
    half = float(stats.t.ppf((1 + LEVEL) / 2, numbers.size - 1) * error)
    return Summary(mean, mean - half, mean + half, numbers.size)


def resampled_mean(values: ArrayLike, seed: int) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of independent values, shape (value,).

    For measurements that are one number per sentence. UserError for fewer than two values.
    """
    numbers = np.asarray(values, dtype=float)
    if numbers.size < 2:
        raise UserError("an interval of a mean needs at least two values")
    options = {"n_resamples": 2000, "confidence_level": LEVEL, "method": "percentile"}
    found = stats.bootstrap((numbers,), np.mean, **options, rng=np.random.default_rng(seed))
    return tuple(map(float, found.confidence_interval))


def resampled_median(
    values: Float[np.ndarray, "round ..."],
) -> Float[np.ndarray, "replicate ..."]:
    """The median over rounds, then that of rounds drawn again, always the same ones."""
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    return np.stack([np.median(values, 0), *np.median(drawn, 1)])


def proportion(hits: ArrayLike) -> tuple[float, float, float]:
    """The share of True, and the ends of its exact 95 % interval (Clopper and Pearson 1934)."""
    hits = np.asarray(hits, dtype=bool)
    ends = stats.binomtest(int(hits.sum()), len(hits)).proportion_ci(LEVEL)
    return float(hits.mean()), float(ends.low), float(ends.high)


def resampled_ratio(hits: ArrayLike, counts: ArrayLike, seed: int) -> Replicates:
    """Σ hits / Σ counts over sentences, shape (sentence,) each, and its bootstrap over sentences.

    Ratios over the same sentences with one seed share their resamples and may be subtracted. NaN
    where a resample counts nothing.
    """
    hits, counts = np.asarray(hits, dtype=float), np.asarray(counts, dtype=float)
    drawn = np.concatenate([np.ones((1, counts.size)), draws(counts.size, REPLICATES, seed)])
    over = drawn @ counts
    return np.divide(drawn @ hits, over, out=np.full(len(over), np.nan), where=over > 0)


def share_not_below(
    values: ArrayLike, lows: ArrayLike, highs: ArrayLike, bound: float
) -> tuple[float, float, float]:
    """Share of the values, shape (value,), at or above a bound, and its bounds by their intervals.

    The low end counts those whose whole interval lies there, the high end those of which any part
    does: equivalence is shown, not inferred from a difference that is not significant.
    """
    return tuple(float((np.asarray(each) >= bound).mean()) for each in (values, lows, highs))


def difference(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """First minus second with its interval, of two estimates (value, low, high).

    Distances from value to ends are squared and added (Newcombe 1998, method 10): for estimates
    that are not resampled together. Where both are of the same sentences it is wide rather than
    narrow.
    """
    (value, low, high), (other, below, above) = first, second
    down, up = np.hypot(value - low, above - other), np.hypot(high - value, other - below)
    return value - other, value - other - float(down), value - other + float(up)


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
    raised = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    return np.minimum(raised, 1)[np.argsort(order)]


def mean_of_known(values: Float[np.ndarray, "*batch value"]) -> Float[np.ndarray, "*batch"]:
    """Mean over the last axis without NaN; NaN where nothing else is there."""
    return np.ma.masked_invalid(values).mean(-1).filled(np.nan)


def spearman(
    scores: Float[np.ndarray, "*batch measure head"],
) -> Float[np.ndarray, "*batch measure measure"]:
    """Correlation of the ranks of every two measures over the heads; ties share their mean rank.

    NaN for a measure that is the same for every head, or NaN for one.
    """
    ranks = stats.rankdata(scores, axis=-1, nan_policy="propagate")
    apart = ranks - ranks.mean(-1, keepdims=True)
    size = np.linalg.norm(apart, axis=-1, keepdims=True)
    unit = np.divide(apart, size, out=np.full_like(apart, np.nan), where=size > 0)
    return (unit @ np.swapaxes(unit, -1, -2)).clip(-1, 1)


def drawn_within(
    groups: Sequence[object], replicates: int = REPLICATES
) -> Int[np.ndarray, "replicate head"]:
    """Head in each place: row 0 all as they are, then drawn within their groups."""
    noise = np.random.default_rng(WITHIN_GROUPS)
    found = np.tile(np.arange(len(groups)), (1 + replicates, 1))
    for name in dict.fromkeys(groups):
        places = np.array([at for at, group in enumerate(groups) if group == name])
        found[1:, places] = noise.choice(places, size=(replicates, len(places)))
    return found


def within_layers(
    first: Float[np.ndarray, "*batch layer head"], second: Float[np.ndarray, "*batch layer head"]
) -> Float[np.ndarray, "*batch layer"]:
    """Spearman's correlation of two scores over the heads of each layer."""
    return spearman(np.stack([first, second], axis=-2))[..., 0, 1]


def resampled_within_layers(
    first: Float[np.ndarray, "layer head"], second: Float[np.ndarray, "layer head"]
) -> Float[np.ndarray, " replicate"]:
    """Mean over the layers of `within_layers`; heads are drawn again within their own layer.

    A replicate leaves out a layer in which it drew heads that do not differ.
    """
    layers = np.repeat(np.arange(len(first)), first.shape[1])
    drawn = drawn_within(layers.tolist())
    shape = (len(drawn), *first.shape)
    found = within_layers(first.ravel()[drawn].reshape(shape), second.ravel()[drawn].reshape(shape))
    return np.concatenate([[found[0].mean()], mean_of_known(found[1:])])


def interval(replicates: ArrayLike) -> tuple[float, float, float]:
    """The plain value, and the ends of the 95 % interval of the replicates that have a number.

    `replicates` has shape (1 + replicate,), the plain value first.
    """
    plain, *drawn = np.asarray(replicates, dtype=float).tolist()
    low, high = pd.Series(drawn, dtype=float).quantile([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return plain, low, high


def of_type(word_type: str, seed: int) -> float:
    """A number in [0, 1) that is drawn for a word type, whatever other types there are."""
    return float(np.random.default_rng([seed, crc32(word_type.encode())]).random())


@lru_cache(maxsize=4)
def draws(sentences: int, samples: int, seed: int) -> Float[np.ndarray, "sample sentence"]:
    """Number of times each sample draws each sentence, by sacrebleu's generator.

    As floats: products of whole numbers are as exact in them, and many times faster.
    """
    drawn = np.random.default_rng(seed).choice(sentences, size=(samples, sentences), replace=True)
    return np.stack([np.bincount(row, minlength=sentences) for row in drawn]).astype(np.float64)


def spread(
    items: Sequence[Item], count: int, to: Callable[[np.ndarray], np.ndarray] = np.floor
) -> list[Item]:
    """So many of the items from all over them, the first and the last among them.

    Places are whole numbers by `to`.
    """
    places = to(np.linspace(0, len(items) - 1, min(count, len(items)))).astype(int)
    return [items[place] for place in places]
