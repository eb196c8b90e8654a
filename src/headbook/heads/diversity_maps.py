"""Similarity of two heads' attention maps, and variation of one head's map with the query."""

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.measure import HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import counted_keys, counted_queries
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind

Maps = Float[Tensor, "batch head query key"]


class _MapMeasure(HeadMeasure):
    """A sum over queries of something of every layer's maps, over the number of queries."""

    def of_layer(self, maps: Maps) -> Float[Tensor, "batch *cell query"]:
        """At each query; maps are 0 at keys and queries that do not count."""
        raise NotImplementedError

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer *cell"], Float[Tensor, "batch ..."]]:
        queries = counted_queries(batch, self.kind, boundary=True)
        found = torch.stack(
            [self.of_layer(each).sum(-1) for each in counted_maps(tape, batch, self.kind)], dim=1
        )
        return found, queries.double().sum(1).view(-1, *[1] * (found.ndim - 1))


class MapOverlap(_MapMeasure):
    """Mean over queries of Σ_k a_i a_j, [layer, head, head]: 1 for two heads that point at one key.

    Li et al. 2018's positions, whose disagreement is minus this, there summed over the queries.
    """

    def of_layer(self, maps: Maps) -> Float[Tensor, "batch head other query"]:
        return torch.einsum("bhqk,bgqk->bhgq", maps, maps)


class MapEntropy(_MapMeasure):
    """Mean over queries of the entropy of the map's row in nats, [layer, head]."""

    def of_layer(self, maps: Maps) -> Float[Tensor, "batch head query"]:
        return _entropy(maps)


class MapVariance(HeadMeasure):
    """Variance of a key's weight across the queries, mean over keys and sentences, [layer, head].

    The X-raying article's intra-head attention diversity, as its notebook has it. Raw: it falls
    with the square of the length. Sentences of one query have none and do not count.
    """

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]:
        parts = [_variance(each, batch, self.kind) for each in counted_maps(tape, batch, self.kind)]
        keys = counted_keys(batch, self.kind, boundary=True).sum(-1).double()
        found = torch.stack([variance for variance, _ in parts], dim=1) / keys[:, None, None]
        return _several(found, batch, self.kind)


class QueryDependence(MapVariance):
    """The same over the most it could be, Σ_k Var_q(a_qk) / (1 - Σ_k mean_q(a_qk)²), [layer, head].

    Scale-free form of `MapVariance`: 0 where every query attends alike, 1 where each points at one
    key; length drops out. A head that points at one key whatever the query has 0.
    """

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]:
        parts = [_variance(each, batch, self.kind) for each in counted_maps(tape, batch, self.kind)]
        shares = [torch.where(most > EPSILON, variance / most.clamp(min=EPSILON), 0.0)
                  for variance, most in parts]  # fmt: skip
        return _several(torch.stack(shares, dim=1), batch, self.kind)


EPSILON = 1e-9


def counted_maps(tape: Recording, batch: Batch, kind: Kind) -> list[Maps]:
    """Each layer's weights in 64 bits, 0 wherever query or key does not count.

    Which key a query may see is for the model's mask to say: the X-raying article's decoder looks
    at the keys that a causal one must not see, and its maps would be empty here.
    """
    keys = counted_keys(batch, kind, boundary=True)[:, None, :]
    seen = (keys & counted_queries(batch, kind, boundary=True)[:, :, None])[:, None]
    return [each.masked_fill(~seen, 0.0).double() for each in tape[kind, Point.WEIGHTS]]


def _entropy(maps: Float[Tensor, "*shape key"]) -> Float[Tensor, "*shape"]:
    return torch.special.entr(maps).sum(-1)


def _variance(
    maps: Maps, batch: Batch, kind: Kind
) -> tuple[Float[Tensor, "batch head"], Float[Tensor, "batch head"]]:
    """Σ_k Var_q(a_qk) of each sentence, and the most it could be with the same mean row."""
    queries = counted_queries(batch, kind, boundary=True).sum(1).double()[:, None]
    mean_row = maps.sum(2) / queries[..., None]
    of_mean = mean_row.square().sum(-1)
    return maps.square().sum((2, 3)) / queries - of_mean, 1 - of_mean


def _several(
    found: Float[Tensor, "batch layer head"], batch: Batch, kind: Kind
) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]:
    """Without sentences of one query."""
    several = counted_queries(batch, kind, boundary=True).sum(1) > 1
    several = several[:, None, None]
    return torch.where(several, found, 0.0), several.double()
