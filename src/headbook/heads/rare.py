"""The rare-word head: how often a head points at the least frequent token of the sentence."""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording, once
from headbook.heads.tokens import (
    NOWHERE,
    by_layer,
    counted_keys,
    counted_pairs,
    counted_queries,
    favourites,
    pointed,
    visible,
)
from headbook.text.batches import Batch
from headbook.types import Kind

OUTSIDE_TOP = 500
"""Voita et al. 2019, section 5.3: sentences whose least frequent token is outside the top 500."""


class RareUnit(StrEnum):
    """Unit over which "points at" is counted; the paper does not say."""

    QUERY = "query"
    """Share of query tokens that point there."""
    SENTENCE = "sentence"
    """Share of sentences whose most attended token, summed over queries, is there."""


@dataclass(frozen=True)
class RareTokens:
    """For each sentence, where its rarest and its two rarest tokens stand, and whether it counts.

    Tokens are distinguished by rank: every occurrence of the rarest token is a place of it.
    """

    places: Bool[Tensor, "batch 2 key"]
    kept: Bool[Tensor, " batch"]


class RareShare(HeadMeasure):
    """Share of pointing at the rarest token, and at one of the two rarest, [layer, head, 2].

    `ranks` gives each source piece's frequency rank on the training source, 0 the most frequent;
    EOS is never the rarest. Sentences without a token of rank `outside_top` or above are left out.
    Tokens are subword pieces.
    """

    def __init__(
        self,
        ranks: Int[Tensor, " vocabulary"],
        unit: RareUnit = RareUnit.QUERY,
        outside_top: int = OUTSIDE_TOP,
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(Kind.ENCODER, replicates)
        self.ranks = ranks
        self.unit = unit
        self.outside_top = outside_top

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head 2"], Float[Tensor, "batch 1 1 1"]]:
        rare = self._rare(tape, batch)
        queries = counted_queries(batch, self.kind) & rare.kept[:, None]
        key, asked = self._pointed(tape, batch, queries)
        hits = _hits(key, rare.places) & asked[:, None, None, :, None]
        return hits.sum(-2).double(), asked.double().sum(-1)[:, None, None, None]

    def _rare(self, tape: Recording, batch: Batch) -> RareTokens:
        return once(
            tape,
            (rare_tokens, id(self.ranks), self.outside_top),
            lambda: rare_tokens(batch, self.ranks, self.outside_top),
        )

    def _pointed(
        self, tape: Recording, batch: Batch, queries: Bool[Tensor, "batch query"]
    ) -> tuple[Int[Tensor, "batch layer head asker"], Bool[Tensor, "batch asker"]]:
        """Token that each query, or the whole sentence, points at, and which of these count."""
        if self.unit is RareUnit.QUERY:
            return favourites(tape, batch, self.kind).key, queries
        pairs = counted_pairs(batch, self.kind) & queries[:, :, None]

        def overall(weights: Tensor) -> Tensor:
            return pointed(visible(weights, pairs).float().sum(-2, keepdim=True))

        return by_layer(tape, self.kind, overall), queries.any(-1, keepdim=True)


class RareChance(RareShare):
    """The same share for a head that points at every key that counts equally often, [1, 1, 2]."""

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch 1 1 2"], Float[Tensor, "batch 1 1 1"]]:
        rare = self._rare(tape, batch)
        queries = counted_queries(batch, self.kind) & rare.kept[:, None]
        askers = queries if self.unit is RareUnit.QUERY else queries.any(-1, keepdim=True)
        count = askers.double().sum(-1)[:, None, None, None]
        keys = counted_keys(batch, self.kind).double().sum(-1).clamp(min=1)
        share = rare.places.double().sum(-1) / keys[:, None]
        return share[:, None, None] * count, count


def rare_tokens(
    batch: Batch, ranks: Int[Tensor, " vocabulary"], outside_top: int = OUTSIDE_TOP
) -> RareTokens:
    """Positions of each sentence's rarest tokens; EOS and padding have no rank."""
    words = counted_keys(batch, Kind.ENCODER)
    rank = torch.where(words, ranks.to(batch.source.device)[batch.source], -1)
    rarest = rank.amax(-1, keepdim=True)
    second = torch.where(rank < rarest, rank, -1).amax(-1, keepdim=True)
    one_of_two = (rank == rarest) | (rank == second)
    places = torch.stack([rank == rarest, one_of_two], dim=1) & words[:, None]
    return RareTokens(places, (rarest >= outside_top).squeeze(-1) & words.any(-1))


def _hits(
    key: Int[Tensor, "batch layer head asker"], places: Bool[Tensor, "batch 2 key"]
) -> Bool[Tensor, "batch layer head asker 2"]:
    """True where the key is one of the places."""
    sentence = torch.arange(len(key), device=key.device)[:, None, None, None]
    right = places.mT[sentence, key.clamp(min=0)]
    return right & (key != NOWHERE)[..., None]
