"""Which heads gates keep: those near a role, those with one, and what chance would keep.

A score, nearness, is one number per head; `kept` says for every point of a sweep which heads are
open. Values come with their replicates: shape (1 + replicate,), the plain value first.
"""

import numpy as np
from jaxtyping import Bool, Float

from headbook.statistics import REPLICATES, Replicates, mean_of_known

OF_A_MODEL, OF_LABELS = 1784422009, 2033032967
"""Seeds: published intervals come out the same when they are computed again."""


def nearer(
    nearness: Float[np.ndarray, " head"], kept: Bool[np.ndarray, "point head"]
) -> Replicates:
    """Share of pairs of a kept and a closed head in which the kept one is nearer a role.

    A tie counts half; mean over the points. Replicates draw the heads again, and leave out points
    that lost their pairs.
    """
    heads, noise = nearness.size, np.random.default_rng(OF_A_MODEL)
    drawn = noise.multinomial(heads, np.full(heads, 1 / heads), size=REPLICATES)
    weights = np.concatenate([np.ones((1, heads)), drawn])
    shares = []
    for row in kept:
        pairs = (weights * row).sum(1) * (weights * ~row).sum(1)
        won = (((weights * row) @ _wins(nearness)) * (weights * ~row)).sum(1)
        shares.append(np.divide(won, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0))
    return mean_of_known(np.stack(shares, -1))


def nearer_by_layer(
    nearness: Float[np.ndarray, " head"], kept: Bool[np.ndarray, "point head"], layers: np.ndarray
) -> float:
    """Expected `nearer` where each layer's kept heads are drawn at random, as many as there are."""
    same, shares = layers[:, None] == layers, []
    size = same.sum(1)
    for row in kept:
        if row.any() and not row.all():
            open_ = (same & row).sum(1)
            share = open_ / size
            within = share * (size - open_) / np.maximum(size - 1, 1)
            chances = np.where(same, within[:, None], share[:, None] * (1 - share))
            np.fill_diagonal(chances, 0.0)
            shares.append((_wins(nearness) * chances).sum() / (row.sum() * (~row).sum()))
    return float(np.mean(shares))


def gap(values: Float[np.ndarray, " head"], label: Bool[np.ndarray, " head"]) -> Replicates:
    """Mean of the labelled heads minus that of the others, and the same less what chance gives.

    Chance is the gap with the labels permuted over the heads, so the interval of the replicates
    excludes zero where the permutation test rejects: with few labelled heads a bootstrap of these
    alone would hardly vary. NaN where no head or every head has the label.
    """
    if not label.any() or label.all():
        return np.full(1 + REPLICATES, np.nan)
    noise = np.random.default_rng(OF_LABELS)
    labels = noise.permuted(np.tile(label, (REPLICATES, 1)), axis=1)
    gaps = [values[each].mean() - values[~each].mean() for each in (label, *labels)]
    return np.concatenate([gaps[:1], gaps[0] - np.array(gaps[1:])])


def _wins(scores: Float[np.ndarray, " head"]) -> Float[np.ndarray, "head other"]:
    return (np.sign(scores[:, None] - scores) + 1) / 2
