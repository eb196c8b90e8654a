"""Dissimilarity of each head from the others of its block, and agreement of two scores' orders.

Scores of a model's heads are grids, [kind, layer, head] with the kinds in the order of `Kind`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from headbook.artefacts.model import Heads, Size
from headbook.chapters.diversity._scores import DISTANCE
from headbook.corpora.batches import Batch
from headbook.heads.collect import collect
from headbook.heads.diversity_grams import HeadGrams
from headbook.heads.diversity_maps import MapDistance, QueryDependence
from headbook.heads.diversity_pairs import PairCosine, dissimilarity
from headbook.heads.four_metrics import ATTENTION, DISSIMILARITY, head_outputs
from headbook.heads.measure import percentiles
from headbook.models.capture import Point
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.statistics import REPLICATES, drawn_within, interval, within_layers
from headbook.types import Kind

QUERIES, CONTEXTS = "1 - query alignment", "1 - context alignment"
DIVERSITY = (DISSIMILARITY, QUERIES, CONTEXTS, DISTANCE, ATTENTION)
"""Scale-free measures, each large for a diverse head."""
INSIDE, OVER, BETWEEN = "heads of a block", "heads of a kind", "layers of a kind"
"""Units of the ordering: within blocks it depends on neither kind nor layer."""
ALL = "all kinds"
KINDS = tuple(Kind)
Grid = Float[np.ndarray, "kind layer head"]
Grids = Float[np.ndarray, "replicate kind layer head"]
Replicates = Float[np.ndarray, " replicate"]


def diversities(model: Transformer, batches: Sequence[Batch]) -> dict[str, Grid]:
    """Every measure of every head, from one pass over the text."""
    measures = {kind: _measures(model, kind) for kind in KINDS}
    collect(model, batches, [each for of_kind in measures.values() for each in of_kind.values()])
    return {
        name: np.stack([_score(name, measures[kind][name].compute()).numpy() for kind in KINDS])
        for name in DIVERSITY
    }


def _measures(model: Transformer, kind: Kind) -> dict[str, Metric]:
    """Without replicates over sentences: the heads vary here."""
    return {
        DISSIMILARITY: PairCosine(kind, projections=head_outputs(model, kind), replicates=0),
        QUERIES: HeadGrams(kind, Point.QUERIES),
        CONTEXTS: HeadGrams(kind, Point.CONTEXT),
        DISTANCE: MapDistance(kind, replicates=0),
        ATTENTION: QueryDependence(kind, replicates=0),
    }


def _score(name: str, found: Tensor) -> Float[Tensor, "layer head"]:
    """One number per head, large for a diverse one, of what a measure gives."""
    if name == ATTENTION:
        return found
    if name == DISTANCE:
        return with_others(found)
    return with_others(dissimilarity(found) if name == DISSIMILARITY else 1 - found)


def with_others(pairs: Float[Tensor, "layer head other"]) -> Float[Tensor, "layer head"]:
    """The mean over the other heads of the block; NaN for a single head."""
    apart = ~torch.eye(pairs.shape[-1], dtype=torch.bool, device=pairs.device)
    # Two heads are equally far from each other: rounding must not put them in an order.
    even = (pairs + pairs.mT) / 2
    return torch.where(apart, even, 0.0).sum(-1) / apart.sum(-1)


def grid_of(heads: Heads, values: Float[np.ndarray, " each"], size: Size) -> Grid:
    """Scores in the order of the heads as a grid; NaN where there is none."""
    grid = np.full((len(KINDS), size.layers, size.heads), np.nan)
    for head, value in zip(heads, values, strict=True):
        grid[KINDS.index(head.kind), head.layer, head.head] = value
    return grid


def drawn_again(grid: Grid) -> Grids:
    """First as it is, then with the heads of every block drawn again, with replacement.

    Grids of one shape are drawn alike, so statistics of two of them are paired.
    """
    blocks = np.arange(grid.size) // grid.shape[-1]
    return grid.ravel()[drawn_within(blocks.tolist())].reshape(-1, *grid.shape)


def shuffled_heads(grid: Grid) -> Grids:
    """The heads of every block in random order: effects of layer and kind stay."""
    noise = np.random.default_rng(derived(0, "heads shuffled in their blocks"))
    return noise.permuted(np.repeat(grid[None], REPLICATES, axis=0), axis=-1)


def shuffled_layers(grid: Grid) -> Grids:
    """The means of the layers, every head its layer's, in random order within each kind."""
    noise = np.random.default_rng(derived(0, "layers shuffled in their kinds"))
    means = np.repeat(grid.mean(-1)[None], REPLICATES, axis=0)
    return np.repeat(noise.permuted(means, axis=-1)[..., None], grid.shape[-1], axis=-1)


def inside_blocks(first: Grids, second: Grids) -> dict[str, Replicates]:
    """Spearman's correlation over the heads of one block, mean over the blocks."""
    return by_kind(within_layers(first, second))


def over_heads(first: Grids, second: Grids) -> dict[str, Replicates]:
    """The same over all heads of a kind, whatever their layer."""
    flat = (each.reshape(*each.shape[:2], -1) for each in (first, second))
    return by_kind(within_layers(*flat))


def between_layers(first: Grids, second: Grids) -> dict[str, Replicates]:
    """The same over the layers of a kind, of the means over their heads."""
    return by_kind(within_layers(first.mean(-1), second.mean(-1)))


def slopes(grids: Grids) -> dict[str, Replicates]:
    """Least-squares slope of the mean over a layer's heads: by how much it changes a layer."""
    layers = np.arange(grids.shape[2])
    apart = layers - layers.mean()
    return by_kind(grids.mean(-1) @ apart / (apart @ apart))


def by_kind(found: Float[np.ndarray, "replicate kind *layer"]) -> dict[str, Replicates]:
    """The mean over a kind's blocks, and over those of all kinds.

    A block whose heads are all alike has no order and is left out; NaN where that is every block.
    """
    cells = torch.as_tensor(found).reshape(*found.shape[:2], -1)
    kinds = {str(kind): cells[:, at].nanmean(-1).numpy() for at, kind in enumerate(KINDS)}
    return {ALL: cells.flatten(1).nanmean(-1).numpy(), **kinds}


Correlate = Callable[[Grids, Grids], Mapping[str, Replicates]]
SCOPES: Mapping[str, tuple[Correlate, Callable[[Grid], Grids]]] = MappingProxyType(
    {
        INSIDE: (inside_blocks, shuffled_heads),
        OVER: (over_heads, shuffled_heads),
        BETWEEN: (between_layers, shuffled_layers),
    }
)
"""Correlation of two scores in each scope, and the shuffling behind its chance level."""


def agreement(first: Grid, second: Grid) -> Iterator[dict[str, object]]:
    """One row per scope and kind: the correlation, its interval over heads, and chance."""
    for scope, (correlate, shuffle) in SCOPES.items():
        found = correlate(drawn_again(first), drawn_again(second))
        chance = correlate(shuffle(first), np.repeat(second[None], REPLICATES, axis=0))
        for kind, replicates in found.items():
            value, low, high = interval(replicates)
            null = torch.as_tensor(chance[kind])
            null_low, null_high = percentiles(null)
            yield {
                "scope": scope, "kind": kind, "value": value, "low": low, "high": high,
                "null": float(null.nanmean()), "null_low": float(null_low),
                "null_high": float(null_high),
            }  # fmt: skip
