"""Heads of random weights: the value of a measure for a head without information."""

import torch
from torch import Tensor

from headbook.heads.bootstrap import mixed, uniform
from headbook.heads.tokens import counted_pairs
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind

_STREAM = 1 << 40
"""Keeps these draws apart from the bootstrap's, which hash the same sentence numbers."""


def random_heads(batch: Batch, kind: Kind) -> dict[tuple[Kind, Point], list[Tensor]]:
    """A recording of one head, its weights uniform on the simplex of the real keys of each query.

    A draw is a hash of sentence, query and key, so the same whatever the batch. Any measure reads
    it: `confidence(random_heads(batch, kind), batch, kind)`.
    """
    pairs = counted_pairs(batch, kind, boundary=True)
    query, key = (torch.arange(size, device=pairs.device) for size in pairs.shape[1:])
    seed = mixed(mixed(batch.sentences + _STREAM))[:, None]
    cell = mixed(mixed(seed[..., None] + query)[..., None] + key)
    # Normalised exponentials are uniform on the simplex.
    weights = -torch.log1p(-uniform(cell)).float() * pairs[:, None]
    tiny = torch.finfo(weights.dtype).tiny
    return {(kind, Point.WEIGHTS): [weights / weights.sum(-1, keepdim=True).clamp(min=tiny)]}
