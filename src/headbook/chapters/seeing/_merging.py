"""Heads of a layer made to share one map, against removing as many: the comparison of page 51."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from headbook.heads.head_distance import Distances, Layers, groups_of
from headbook.models.capture import Capturable, Point
from headbook.models.edits import edited
from headbook.models.gates import closed
from headbook.types import HeadId

ALIKE, RANDOM = "share maps, alike heads", "share maps, random heads"
REDUNDANT, ANY, LEAST = "remove, alike heads", "remove, random heads", "remove, least important"
DRAWN = (RANDOM, ANY)
"""Ways that depend on a draw."""

Group = list[int]


def alike(distances: Distances, layers: Layers, merges: int) -> list[Group]:
    """Groups of heads after so many merges, the closest first: average linkage within layers."""
    labels = np.arange(len(layers))
    for layer, count in zip(*np.unique(_order(distances, layers)[:merges], return_counts=True),
                            strict=True):  # fmt: skip
        heads = np.flatnonzero(layers == layer)
        members = {at: [head] for at, head in enumerate(heads)}
        for step, (one, other) in enumerate(_tree(distances, heads)[:count, :2].astype(int)):
            members[len(heads) + step] = members.pop(one) + members.pop(other)
        for group in members.values():
            labels[group] = min(group)
    return groups_of(labels.tolist())


def _order(distances: Distances, layers: Layers) -> np.ndarray:
    """The layer of every possible merge, by the distance that it joins."""
    trees = {int(layer): _tree(distances, np.flatnonzero(layers == layer)) for layer in set(layers)}
    steps = [(height, layer) for layer, tree in trees.items() for height in tree[:, 2]]
    return np.array([layer for _, layer in sorted(steps)], dtype=int)


def _tree(distances: Distances, heads: np.ndarray) -> np.ndarray:
    if len(heads) < 2:
        return np.zeros((0, 4))
    own = distances[np.ix_(heads, heads)]
    return linkage(squareform(own, checks=False), "average")


def at_random(groups: Sequence[Group], layers: Layers, noise: np.random.Generator) -> list[Group]:
    """Groups of random heads of a layer, in every layer as many and as large as those given."""
    found = []
    for layer in sorted(set(layers)):
        order = noise.permutation(np.flatnonzero(layers == layer)).tolist()
        sizes = [len(group) for group in groups if layers[group[0]] == layer]
        for size in sizes:
            found.append(order[:size])
            order = order[size:]
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
    sizes: dict[int, int] = {}
    for head in heads:
        sizes[head.layer] = max(sizes.get(head.layer, 0), head.head + 1)
    found = {layer: torch.eye(size) for layer, size in sizes.items()}
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


def _mixed(
    matrix: Float[Tensor, "head head"], weights: Float[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head query key"]:
    return torch.einsum("gh,bhqk->bgqk", matrix.to(weights), weights)


def settings(
    network: Capturable,
    heads: Sequence[HeadId],
    distances: Distances,
    importance: Float[np.ndarray, " head"],
    merges: Sequence[int],
    draws: int,
) -> Iterator[tuple[str, int, int, Callable[[], AbstractContextManager]]]:
    """Way, number of maps saved, draw, and the intervention; `heads` are those of `distances`."""
    layers = np.array([head.layer for head in heads])

    def removing(chosen: Sequence[int]) -> Callable[[], AbstractContextManager]:
        return partial(closed, network, [heads[at] for at in chosen])

    for count in merges:
        groups = alike(distances, layers, count)
        spare = redundant(groups, distances)
        yield ALIKE, count, 0, partial(sharing, network, groups, heads)
        yield REDUNDANT, count, 0, removing(spare)
        yield LEAST, count, 0, removing(np.argsort(importance)[:count].tolist())
        for draw in range(draws):
            noise = np.random.default_rng((draw, count))
            drawn = at_random(groups, layers, noise)
            yield RANDOM, count, draw, partial(sharing, network, drawn, heads)
            # The first of each random group stays, so as many go in every layer.
            yield ANY, count, draw, removing([head for group in drawn for head in group[1:]])
