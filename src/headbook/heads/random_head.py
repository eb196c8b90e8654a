"""Heads of random weights: the value of a measure for a head without information."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.bootstrap import mixed, uniform
from headbook.heads.tokens import counted_pairs
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind

_STREAM = 1 << 40
"""Keeps these draws apart from the bootstrap's, which hash the same sentence numbers."""


def random_heads(
    batch: Batch, kind: Kind, layers: int = 1, heads: int = 1
) -> dict[tuple[Kind, Point], list[Tensor]]:
    """A recording whose weights are uniform on the simplex of the real keys, drawn for each query.

    A draw is a hash of sentence, layer, head, query and key, so the same whatever the batch. Any
    measure reads it: `confidence(random_heads(batch, kind), batch, kind)`.
    """
    pairs = counted_pairs(batch, kind, boundary=True)
    sentence = mixed(batch.sentences + _STREAM)[:, None]
    drawn = []
    for layer in range(layers):
        numbers = torch.arange(layer * heads, (layer + 1) * heads, device=pairs.device)
        drawn.append(_weights(mixed(sentence + numbers), pairs))
    return {(kind, Point.WEIGHTS): drawn}


def _weights(
    seed: Int[Tensor, "batch head"], pairs: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch head query key"]:
    query, key = (torch.arange(size, device=pairs.device) for size in pairs.shape[1:])
    cell = mixed(mixed(seed[..., None] + query)[..., None] + key)
    # Normalised exponentials are uniform on the simplex.
    weights = -torch.log1p(-uniform(cell)).float() * pairs[:, None]
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
