"""Intervals, resampling and rank correlation; adjusted tests of many things at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar
from zlib import crc32

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy import stats

from headbook.types import UserError

LEVEL = 0.95
REPLICATES = 1000
WITHIN_GROUPS, OF_A_GROUP, OF_A_MODEL = 1038005142, 2033032967, 1784422009
"""Seeds: published intervals come out the same when they are computed again."""

Item = TypeVar("Item")
Replicates = Float[np.ndarray, " replicate"]
"""A number as it is, and then as its resamples have it."""


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

    For measurements that are one number per sentence. UserError for fewer than two values.
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


def resampled_ratio(hits: ArrayLike, counts: ArrayLike, seed: int) -> Replicates:
    """Σ hits / Σ counts over sentences, shape (sentence,) each, and its bootstrap over sentences.

    Ratios over the same sentences with one seed share their resamples and may be subtracted. NaN
    where a resample counts nothing.
    """
    hits, counts = np.asarray(hits, dtype=float), np.asarray(counts, dtype=float)
    drawn = np.concatenate([np.ones((1, counts.size)), draws(counts.size, REPLICATES, seed)])
    over = drawn @ counts
    return np.divide(drawn @ hits, over, out=np.full(len(over), np.nan), where=over > 0)


def binomial_interval(hits: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a share, `hits` of `count` (Clopper and Pearson 1934).

    NaN where there is nothing to count.
    """
    if not count:
        return float("nan"), float("nan")
    found = stats.binomtest(hits, count).proportion_ci(level, method="exact")
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


def difference(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> tuple[float, float, float]:
    """First minus second with its interval, of two estimates (value, low, high).

    Distances from value to ends are squared and added (Newcombe 1998, method 10): for estimates
    that are not resampled together. Where both are of the same sentences it is wide rather than
    narrow.
    """
    (value, low, high), (other, below, above) = first, second
    gap = value - other
    return (
        gap,
        gap - float(np.hypot(value - low, above - other)),
        gap + float(np.hypot(high - value, other - below)),
    )


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


def mean_of_known(values: Float[np.ndarray, "*batch value"]) -> Float[np.ndarray, "*batch"]:
    """Mean over the last axis without NaN; NaN where nothing else is there."""
    known = ~np.isnan(values)
    count = known.sum(-1)
    total = np.where(known, values, 0).sum(-1)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


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


def partial_spearman(
    first: Float[np.ndarray, " head"],
    second: Float[np.ndarray, " head"],
    taken_out: Float[np.ndarray, "measure head"],
) -> float:
    """Correlation of two measures' ranks after the part that others' ranks explain is removed.

    NaN where nothing is left of one of them.
    """
    ranks = stats.rankdata(np.vstack([first, second, taken_out]), axis=-1)
    apart = ranks - ranks.mean(-1, keepdims=True)
    sides, others = apart[:2].T, apart[2:].T
    left = sides - others @ np.linalg.lstsq(others, sides, rcond=None)[0]
    size = np.linalg.norm(left, axis=0)
    if (size < 1e-9 * np.linalg.norm(sides, axis=0).clip(min=1)).any():
        return np.nan
    return float(left[:, 0] @ left[:, 1] / size.prod())


def drawn_within(
    groups: Sequence[object], replicates: int = REPLICATES
) -> Int[np.ndarray, "replicate head"]:
    """Head in each place: row 0 all as they are, then drawn within their groups."""
    names = list(dict.fromkeys(groups))
    noise = np.random.default_rng(WITHIN_GROUPS)
    found = np.tile(np.arange(len(groups)), (1 + replicates, 1))
    for name in names:
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
    plain, *drawn = np.asarray(replicates, dtype=float)
    if np.isnan(drawn).all():
        return float(plain), np.nan, np.nan
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(plain), float(low), float(high)


def group_means(groups: Iterable[Float[np.ndarray, "..."]]) -> list[Replicates]:
    """The mean of each group of heads; every group's heads are drawn again on their own.

    NaN for a group without heads.
    """
    noise = np.random.default_rng(OF_A_GROUP)
    return [_resampled_mean(group.ravel(), noise) for group in groups]


def permuted_gap(
    values: Float[np.ndarray, " head"], label: Bool[np.ndarray, " head"]
) -> Float[np.ndarray, " replicate"]:
    """Mean of the labelled heads minus that of the others, and the same less what chance gives.

    Chance is the gap with the labels permuted over the heads, so the interval of the replicates
    excludes zero where the permutation test rejects: with few labelled heads a bootstrap of these
    alone would hardly vary. NaN where no head or every head has the label.
    """
    if not label.any() or label.all():
        return np.full(1 + REPLICATES, np.nan)
    noise = np.random.default_rng(OF_A_GROUP)
    labels = noise.permuted(np.tile(label, (REPLICATES, 1)), axis=1)
    gaps = [values[each].mean() - values[~each].mean() for each in (label, *labels)]
    return np.concatenate([gaps[:1], gaps[0] - np.array(gaps[1:])])


def _resampled_mean(values: Float[np.ndarray, " head"], noise: np.random.Generator) -> Replicates:
    if not values.size:
        return np.full(1 + REPLICATES, np.nan)
    drawn = noise.integers(values.size, size=(REPLICATES, values.size))
    return np.concatenate([[values.mean()], values[drawn].mean(axis=1)])


def pair_share(
    scores: Float[np.ndarray, " head"], kept: Bool[np.ndarray, "point head"]
) -> Replicates:
    """Share of pairs of a kept and a closed head in which the kept one scores higher.

    A tie counts half; mean over the points. Heads whose score is NaN are left out. NaN where no
    point has such a pair; a replicate leaves out the points that lost theirs.
    """
    known = ~np.isnan(scores)
    if not known.any() or not len(kept):
        return np.full(1 + REPLICATES, np.nan)
    wins, weights = _wins(scores[known]), _weights(int(known.sum()))
    rows = kept[:, known]
    shares = np.stack([_weighted_share(wins, weights * row, weights * ~row) for row in rows])
    return mean_of_known(shares.T)


def block_matched_share(
    scores: Float[np.ndarray, " head"],
    kept: Bool[np.ndarray, "point head"],
    blocks: Sequence[int],
) -> float:
    """Expected `pair_share` where each block's kept heads are drawn at random.

    The number of kept heads stays the same in every block, so that only the blocks' effect is left.
    """
    known = ~np.isnan(scores)
    scores, kept, block = scores[known], kept[:, known], np.asarray(blocks)[known]
    shares = [
        (_wins(scores) * _chances(row, block)).sum() / (row.sum() * (~row).sum())
        for row in kept
        if row.any() and not row.all()
    ]
    return float(np.mean(shares)) if shares else float("nan")


def _chances(kept: Bool[np.ndarray, " head"], block: np.ndarray) -> Float[np.ndarray, "head other"]:
    """The chance that the first head is kept and the second closed, in every pair."""
    same = block[:, None] == block
    of_block = same.sum(1)
    open_ = (same & kept).sum(1)
    share = open_ / of_block
    apart = share[:, None] * (1 - share)
    together = share * (of_block - open_) / np.maximum(of_block - 1, 1)
    found = np.where(same, together[:, None], apart)
    np.fill_diagonal(found, 0.0)
    return found


def _wins(scores: Float[np.ndarray, " head"]) -> Float[np.ndarray, "head other"]:
    difference = scores[:, None] - scores
    return (difference > 0) + 0.5 * (difference == 0)


def _weights(heads: int) -> Float[np.ndarray, "replicate head"]:
    """Number of times each replicate draws each head; row 0 draws every head once."""
    noise = np.random.default_rng(OF_A_MODEL)
    drawn = noise.multinomial(heads, np.full(heads, 1 / heads), size=REPLICATES)
    return np.concatenate([np.ones((1, heads)), drawn])


def _weighted_share(
    wins: Float[np.ndarray, "head other"],
    kept: Float[np.ndarray, "replicate head"],
    closed: Float[np.ndarray, "replicate head"],
) -> Replicates:
    won = ((kept @ wins) * closed).sum(1)
    pairs = kept.sum(1) * closed.sum(1)
    return np.divide(won, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)


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
