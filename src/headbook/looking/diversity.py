"""The X-raying article's four diversity metrics of any loaded model, one row per layer."""

from collections.abc import Sequence

import pandas as pd
import torch

from headbook.heads.diversity import mean_of_pairs
from headbook.heads.four_metrics import four_metrics
from headbook.models.capture import Capturable
from headbook.text.batches import Batch
from headbook.types import Kind


def diversity(network: Capturable, kinds: Sequence[Kind], batches: Sequence[Batch]) -> pd.DataFrame:
    """Means over pairs of heads (of heads, for attention diversity), one row per kind and layer.

    Columns: kind, layer (from 1), and "<metric>, raw" and "<metric>, scale-free" for query
    orthogonality, context non-orthogonality, output dissimilarity and attention diversity. Metrics
    whose vectors a model does not record are left out.
    """
    frames = []
    for kind in kinds:
        found = four_metrics(network, kind, batches)
        means = {
            ", ".join(name): (mean_of_pairs(x) if x.ndim == 3 else torch.nanmean(x, dim=1)).tolist()
            for name, x in found.items()
        }
        layers = range(1, 1 + len(next(iter(means.values()))))
        frames.append(pd.DataFrame({"kind": str(kind), "layer": layers, **means}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
