"""Tokens that count as keys and as queries, and where a query points.

Every measure of attention weights asks these two questions here, so that they are answered once.
Boundary tokens are those that stand for no text, as the batch marks them: EOS at the end of one of
our own sources, [CLS] and [SEP] of BERT. In decoder self-attention it is the start token, and there
a query sees keys up to itself only. In cross-attention the queries are target positions, and those
that predict a special token are the boundary queries.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headbook.heads.recording import Recording, once
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind

NOWHERE = -1
"""The key of a query that points at none."""
TIE = 1e-6
"""Weights this close, relative to the larger, are tied: sums over pieces differ by rounding."""


def tokens_read(batch: Batch, kind: Kind) -> Int[Tensor, "batch key"]:
    """The tokens that this kind of attention looks at, padding among them."""
    return batch.target_in if kind is Kind.DECODER else batch.source


def counted_keys(batch: Batch, kind: Kind, boundary: bool = False) -> Bool[Tensor, "batch key"]:
    """The tokens that may be pointed at; with `boundary` boundary tokens among them.

    Their column is masked and the rest not rescaled: a head parked on EOS gets what is left. The
    paper leaves EOS out "as it is not a real token"; that it is left out as a query too is ours.
    """
    real = batch.target_mask if kind is Kind.DECODER else batch.source_mask
    if boundary:
        return real
    return real & ~(batch.input_boundary if kind is Kind.DECODER else batch.source_boundary)


def counted_queries(
    batch: Batch, kind: Kind, boundary: bool = False
) -> Bool[Tensor, "batch query"]:
    """The tokens whose attention is counted; with `boundary` boundary tokens among them."""
    real = batch.source_mask if kind is Kind.ENCODER else batch.target_mask
    if boundary:
        return real
    at_boundary = {
        Kind.ENCODER: batch.source_boundary,
        Kind.DECODER: batch.input_boundary,
        Kind.CROSS: batch.output_boundary,
    }
    return real & ~at_boundary[kind]


def counted_pairs(
    batch: Batch, kind: Kind, boundary: bool = False
) -> Bool[Tensor, "batch query key"]:
    """For each query, counted or not, the keys it may point at."""
    keys = counted_keys(batch, kind, boundary)
    queries = (batch.source if kind is Kind.ENCODER else batch.target_in).shape[1]
    pairs = keys[:, None, :].expand(-1, queries, -1)
    return pairs.tril() if kind is Kind.DECODER else pairs


def by_layer(
    tape: Recording, kind: Kind, make: Callable[[Tensor], Tensor]
) -> Shaped[Tensor, "batch layer head *rest"]:
    """`make` of each layer's [batch 1 head query key], joined along the layers.

    All layers at once would be the same and slower: they do not fit into a processor's cache.
    """
    return torch.cat([make(each[:, None]) for each in tape[kind, Point.WEIGHTS]], dim=1)


def visible(
    weights: Float[Tensor, "batch layer head query key"], pairs: Bool[Tensor, "batch query key"]
) -> Float[Tensor, "batch layer head query key"]:
    """The weights with every key that does not count at 0, not rescaled; a new tensor."""
    return weights.masked_fill(~pairs[:, None, None], 0.0)


def pointed(
    seen: Float[Tensor, "batch layer head query key"],
) -> tuple[Float[Tensor, "batch layer head query"], Int[Tensor, "batch layer head query"]]:
    """The largest weight of every query, and its key: NOWHERE on a tie or without any weight.

    Giving a tie to the first key would let a uniform head score wherever the first key happens to
    be right; so a tied query stays in the denominator and never hits.
    """
    top, key = seen.max(dim=-1)
    # Counted in 32 bits: the default of 64 takes half as long again.
    alone = (seen >= (top * (1 - TIE))[..., None]).sum(-1, dtype=torch.int32) == 1
    return top, torch.where(alone & (top > 0), key, NOWHERE)


def favourites(
    tape: Recording, batch: Batch, kind: Kind
) -> tuple[Float[Tensor, "batch layer head query"], Int[Tensor, "batch layer head query"]]:
    """As `pointed`, among the keys that count, of the weights recorded."""

    def make() -> tuple[Tensor, Tensor]:
        pairs = counted_pairs(batch, kind)
        layers = [pointed(visible(each[:, None], pairs)) for each in tape[kind, Point.WEIGHTS]]
        weight, key = (torch.cat(part, dim=1) for part in zip(*layers, strict=True))
        return weight, key

    return once(tape, (favourites, kind), make)
