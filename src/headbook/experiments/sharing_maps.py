"""Heads of a layer that share one map, against removing as many (page 51).

The published table (seven numbers of maps in three models, five draws, 60 sentences) took minutes.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from headbook.experiments.together import heads as first_kind
from headbook.looking.effects import effects, own_batches
from headbook.looking.passes import bar
from headbook.models.capture import Capturable, Point
from headbook.models.edits import edited
from headbook.models.gates import closed
from headbook.models.loaded import Loaded
from headbook.statistics import resampled_mean
from headbook.types import HeadId

ALIKE, RANDOM = "share maps, alike heads", "share maps, random heads"
REDUNDANT, ANY, LEAST = "remove, alike heads", "remove, random heads", "remove, least important"
FAR = 1e9
"""Distance of heads of two layers, which are never joined."""
Group = list[int]
Distances, Layers = Float[np.ndarray, "head other"], Int[np.ndarray, " head"]


def alike(distances: Distances, layers: Layers, merges: int) -> list[Group]:
    """Groups of heads after so many merges, the closest first: average linkage within layers."""
    apart = np.where(layers[:, None] == layers, distances, FAR)
    tree = linkage(squareform(apart, checks=False), "average")
    labels = cut_tree(tree, len(layers) - merges)[:, 0]
    return sorted(np.flatnonzero(labels == each).tolist() for each in np.unique(labels))


def at_random(groups: Sequence[Group], layers: Layers, noise: np.random.Generator) -> list[Group]:
    """Groups of random heads of a layer, in every layer as many and as large as those given."""
    found = []
    for layer in sorted(set(layers)):
        order = noise.permutation(np.flatnonzero(layers == layer))
        sizes = [len(group) for group in groups if layers[group[0]] == layer]
        found += [part.tolist() for part in np.split(order, np.cumsum(sizes)[:-1])]
    return found


def redundant(groups: Sequence[Group], distances: Distances) -> list[int]:
    """All heads of each group but the one nearest to the others."""
    found = []
    for group in groups:
        middle = group[int(distances[np.ix_(group, group)].sum(1).argmin())]
        found += [head for head in group if head != middle]
    return found


def mixing(groups: Sequence[Group], heads: Sequence[HeadId]) -> Mapping[int, Tensor]:
    """By layer the matrix [head, head] that gives every head the mean map of its group."""
    found = {head.layer: torch.eye(head.head + 1) for head in heads}  # the last stays
    for group in groups:
        places = [heads[at].head for at in group]
        own = found[heads[group[0]].layer]
        own[places] = 0
        own[np.ix_(places, places)] = 1 / len(group)
    return found


def sharing(
    network: Capturable, groups: Sequence[Group], heads: Sequence[HeadId]
) -> AbstractContextManager[None]:
    """The model with the mean map of each group in place of its heads' own; values stay theirs."""
    edits = {(heads[0].kind, layer): {Point.WEIGHTS: partial(_mixed, matrix)}
             for layer, matrix in mixing(groups, heads).items()}  # fmt: skip
    return edited(network, edits)


def _mixed(matrix: Tensor, weights: Float[Tensor, "batch head query key"]) -> Tensor:
    return torch.einsum("gh,bhqk->bgqk", matrix.to(weights), weights)


def compared(
    model: Loaded,
    sentences: Sequence[str],
    distances: Distances,
    merges: Sequence[int],
    draws: int,
    remove: bool = False,
) -> pd.DataFrame:
    """Loss added, or distance of the sentence vector, a row per way, number of maps saved and draw;
    with `remove` also of heads removed. `distances` are of the first kind's heads."""
    heads, network, batches = first_kind(model), model.network, own_batches(model, sentences)
    layers, ways = np.array([head.layer for head in heads]), []

    def removing(chosen: Sequence[int]) -> Callable[[], AbstractContextManager]:
        return partial(closed, network, [heads[at] for at in chosen])

    if remove:  # costly: the importance of every head
        single = [removing([at]) for at in range(len(heads))]
        importance = effects(model, batches, single).mean.numpy()
    for count in merges:
        groups = alike(distances, layers, count)
        ways.append((ALIKE, count, 0, partial(sharing, network, groups, heads)))
        if remove:
            ways.append((REDUNDANT, count, 0, removing(redundant(groups, distances))))
            ways.append((LEAST, count, 0, removing(np.argsort(importance)[:count].tolist())))
        for draw in range(draws):
            drawn = at_random(groups, layers, np.random.default_rng((draw, count)))
            ways.append((RANDOM, count, draw, partial(sharing, network, drawn, heads)))
            if remove:  # the first of each random group stays, so as many go in every layer
                some = [head for group in drawn for head in group[1:]]
                ways.append((ANY, count, draw, removing(some)))
    progress = partial(bar, what="sharing maps", unit="setting")
    found, rows = effects(model, batches, [way[-1] for way in ways], progress), []
    for (way, count, draw, _), added in zip(ways, found.added, strict=True):
        low, high = resampled_mean((added / found.weights.mean()).numpy(), seed=0)
        rows.append({"way": way, "unit": found.unit, "saved": count, "draw": draw,
                     "share": count / len(heads), "value": float(added.sum() / found.weights.sum()),
                     "value_low": low, "value_high": high})  # fmt: skip
    return pd.DataFrame(rows)
