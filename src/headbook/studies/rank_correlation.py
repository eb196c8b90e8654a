"""Spearman's correlation between scores of heads, and how it varies when heads are drawn again."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.stats import rankdata

from headbook.heads.measure import percentiles
from headbook.runs.seeds import derived

REPLICATES = 1000


def spearman(
    scores: Float[np.ndarray, "*batch measure head"],
) -> Float[np.ndarray, "*batch measure measure"]:
    """Correlation of the ranks of every two measures over the heads; ties share their mean rank.

    NaN for a measure that is the same for every head, or NaN for one.
    """
    ranks = rankdata(scores, axis=-1, nan_policy="propagate")
    apart = ranks - ranks.mean(-1, keepdims=True)
    size = np.linalg.norm(apart, axis=-1, keepdims=True)
    unit = np.divide(apart, size, out=np.full_like(apart, np.nan), where=size > 0)
    return (unit @ np.swapaxes(unit, -1, -2)).clip(-1, 1)


def drawn_within(
    groups: Sequence[object], replicates: int = REPLICATES
) -> Int[np.ndarray, "replicate head"]:
    """Which head stands in each place: row 0 all as they are, then drawn within their groups."""
    names = list(dict.fromkeys(groups))
    noise = np.random.default_rng(derived(0, "heads within groups"))
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
    others = torch.as_tensor(found[1:]).nanmean(-1).numpy()
    return np.concatenate([[found[0].mean()], others])


def interval(replicates: Float[np.ndarray, " replicate"]) -> tuple[float, float, float]:
    """The plain value, and the ends of the 95 % interval of the replicates that have a number."""
    low, high = percentiles(torch.as_tensor(replicates[1:]))
    return float(replicates[0]), float(low), float(high)
