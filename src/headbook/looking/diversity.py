"""The X-raying article's four diversity metrics of any loaded model, one row per layer."""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from headbook.heads.diversity_pairs import mean_of_pairs
from headbook.heads.four_metrics import four_metrics
from headbook.models.capture import Capturable, Point, capture
from headbook.text.batches import Batch
from headbook.types import Kind


def diversity(network: Capturable, kinds: Sequence[Kind], batches: Sequence[Batch]) -> pd.DataFrame:
    """Means over pairs of heads (of heads, for attention diversity), one row per kind and layer.

    Columns: kind, layer (from 1), and "<metric>, raw" and "<metric>, scale-free" for query
    orthogonality, context non-orthogonality, output dissimilarity and attention diversity. Metrics
    whose vectors a model does not record are left out.
    """
    rows = []
    for kind in kinds:
        found = four_metrics(network, kind, batches, recorded(network, kind, batches[0]))
        means = {", ".join(name): _per_layer(values) for name, values in found.items()}
        layers = len(next(iter(means.values())))
        rows += [
            {"kind": str(kind), "layer": layer + 1}
            | {name: float(values[layer]) for name, values in means.items()}
            for layer in range(layers)
        ]
    return pd.DataFrame(rows)


@torch.inference_mode()
def recorded(network: Capturable, kind: Kind, batch: Batch) -> frozenset[Point]:
    """The points that the network's blocks of this kind record."""
    with capture(network, set(Point)) as tape:
        network(batch)
    return frozenset(point for point in Point if (kind, point) in tape)


def _per_layer(values: Tensor) -> Tensor:
    if values.ndim == 3:
        return mean_of_pairs(values)
    return torch.nanmean(values, dim=1)
