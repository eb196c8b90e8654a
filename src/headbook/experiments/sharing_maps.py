"""Heads of a layer that share one map, against removing as many (page 51).

The published table (seven numbers of maps in three models, five draws, 60 sentences) took minutes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from headbook.looking.effects import effects, own_batches
from headbook.looking.passes import bar
from headbook.models.capture import Capturable, Point
from headbook.models.edits import edited
from headbook.models.gates import all_heads, closed
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


def settings(
    network: Capturable,
    heads: Sequence[HeadId],
    distances: Distances,
    merges: Sequence[int],
    draws: int,
    importance: Float[np.ndarray, " head"] | None = None,
) -> Iterator[tuple[str, int, int, Callable[[], AbstractContextManager]]]:
    """Way, number of maps saved, draw, and the intervention; `heads` are those of `distances`.

    With the heads' `importance` the ways that remove heads, too.
    """
    layers = np.array([head.layer for head in heads])

    def removing(chosen: Sequence[int]) -> Callable[[], AbstractContextManager]:
        return partial(closed, network, [heads[at] for at in chosen])

    for count in merges:
        groups = alike(distances, layers, count)
        yield ALIKE, count, 0, partial(sharing, network, groups, heads)
        if importance is not None:
            yield REDUNDANT, count, 0, removing(redundant(groups, distances))
            yield LEAST, count, 0, removing(np.argsort(importance)[:count].tolist())
        for draw in range(draws):
            noise = np.random.default_rng((draw, count))
            drawn = at_random(groups, layers, noise)
            yield RANDOM, count, draw, partial(sharing, network, drawn, heads)
            if importance is not None:
                # The first of each random group stays, so as many go in every layer.
                some = [head for group in drawn for head in group[1:]]
                yield ANY, count, draw, removing(some)


def compared(
    model: Loaded,
    sentences: Sequence[str],
    distances: Distances,
    merges: Sequence[int],
    draws: int,
    remove: bool = False,
) -> pd.DataFrame:
    """Loss added, or distance of the sentence vector; with `remove` also of heads removed."""
    every = all_heads(model.network)
    heads = [head for head in every if head.kind is every[0].kind]
    batches, importance = own_batches(model, sentences), None
    if remove:  # costly: the importance of every head
        single = [partial(closed, model.network, [head]) for head in heads]
        importance = effects(model, batches, single).mean.numpy()
    ways = list(settings(model.network, heads, distances, merges, draws, importance))
    found = effects(
        model, batches, [way[-1] for way in ways], partial(bar, what="sharing maps", unit="setting")
    )
    rows = []
    for (way, count, draw, _), added in zip(ways, found.added, strict=True):
        low, high = resampled_mean((added / found.weights.mean()).numpy(), seed=0)
        rows.append({"way": way, "unit": found.unit, "saved": count, "draw": draw,
                     "share": count / len(heads), "value": float(added.sum() / found.weights.sum()),
                     "value_low": low, "value_high": high})  # fmt: skip
    return pd.DataFrame(rows)
