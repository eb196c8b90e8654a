"""Which heads a sweep keeps: shares by group, and whether the kept ones score higher."""

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Bool, Float

from headbook.artefacts.model import Size
from headbook.runs.seeds import derived
from headbook.types import HeadId, Kind

REPLICATES = 1000
Replicates = Float[np.ndarray, " replicate"]
"""A number as it is, and then with the heads drawn again, with replacement."""


def keeping(
    closed: Sequence[Sequence[HeadId]], kinds: Sequence[Kind], size: Size
) -> Bool[np.ndarray, "point kind layer head"]:
    """True where a model keeps the head."""
    kept = np.ones((len(closed), len(kinds), size.layers, size.heads), dtype=bool)
    for number, heads in enumerate(closed):
        for head in heads:
            kept[number, kinds.index(head.kind), head.layer, head.head] = False
    return kept


def some_but_not_all(
    kept: Bool[np.ndarray, "point kind layer head"], least: float = 0.0
) -> Bool[np.ndarray, "chosen kind layer head"]:
    """The points that keep some heads and not all; with `least`, no smaller a share of either."""
    share = kept.mean(axis=(1, 2, 3))
    inside = (share > 0) & (share < 1) & (share >= least) & (share <= 1 - least)
    return kept[inside]


def group_means(groups: Iterable[Float[np.ndarray, "..."]]) -> list[Replicates]:
    """The mean of each group of heads; every group's heads are drawn again on their own.

    NaN for a group without heads.
    """
    noise = np.random.default_rng(derived(0, "heads of a group"))
    return [_resampled_mean(group.ravel(), noise) for group in groups]


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
    return _mean_of_known(
        np.stack([_weighted_share(wins, weights * row, weights * ~row) for row in rows])
    )


def block_matched_share(
    scores: Float[np.ndarray, " head"],
    kept: Bool[np.ndarray, "point head"],
    blocks: Sequence[int],
) -> float:
    """What `pair_share` is on average where each block's kept heads are drawn at random.

    The number of kept heads stays what it is in every block: what is left is the blocks' doing.
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
    """How often each replicate draws each head; row 0 draws every head once."""
    noise = np.random.default_rng(derived(0, "heads of a model"))
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


def _mean_of_known(values: Float[np.ndarray, "point replicate"]) -> Replicates:
    """Over the points, without those that are NaN."""
    known = ~np.isnan(values)
    count = known.sum(0)
    total = np.where(known, values, 0).sum(0)
    return np.divide(total, count, out=np.full(values.shape[1], np.nan), where=count > 0)
