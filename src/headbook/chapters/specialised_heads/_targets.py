"""Targets of a head: rare tokens, and properties that rare tokens often share."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headbook.chapters.specialised_heads._released import Reading
from headbook.corpora.batches import Batch
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.rare import RareUnit, rare_tokens
from headbook.heads.recording import Recording
from headbook.heads.tokens import (
    NOWHERE,
    REAL_TOKENS,
    by_layer,
    counted_keys,
    counted_pairs,
    counted_queries,
    favourites,
    pointed,
    visible,
)
from headbook.types import Kind

NEAR = "next, own or previous token"
NEAR_RAREST, NEAR_COMMONEST = "the rarest of these three", "the commonest of these three"
NOUN = "a noun or name"
NOUN_RAREST, NOUN_COMMONEST = "the rarest noun or name", "the commonest noun or name"
LONGEST = "one of the two longest tokens"
RARE_NOT_LONG, LONG_NOT_RARE = "the rarest, where not longest", "the longest, where not rarest"
OF_SENTENCE = (NOUN, NOUN_RAREST, NOUN_COMMONEST, LONGEST, RARE_NOT_LONG, LONG_NOT_RARE)
OF_QUERY = (NEAR, NEAR_RAREST, NEAR_COMMONEST)
TARGETS = (*OF_QUERY, *OF_SENTENCE)
NOUNS = ("NOUN", "PROPN")

Keys = Bool[Tensor, "batch key"]


@dataclass(frozen=True)
class Rivals:
    """Positions in a batch of tokens that a head could follow instead of rare ones."""

    reading: Reading
    ranks: Int[Tensor, " vocabulary"]

    @cached_property
    def widths(self) -> list[list[int]]:
        """Characters of every token, by sentence; special tokens have none."""
        return [
            [len(tree.text[slice(*span)].strip()) if span else 0
             for span in self.reading.model.spans(tree.text)]
            for tree in self.reading.parsed
        ]  # fmt: skip

    @cached_property
    def characters(self) -> Int[Tensor, " vocabulary"]:
        """The same by the token's id."""
        found = torch.zeros(len(self.ranks), dtype=torch.long)
        for batch in self.reading.batches:
            found[batch.source.flatten()] = torch.maximum(
                found[batch.source.flatten()], self._padded(batch, self.widths).flatten()
            )
        return found

    def of_sentence(self, batch: Batch) -> tuple[Bool[Tensor, "batch target key"], Tensor]:
        """The places of OF_SENTENCE, and in which sentences there are any, [batch, target]."""
        words = counted_keys(batch, Kind.ENCODER, REAL_TOKENS)
        rank = torch.where(words, self.ranks[batch.source], -1)
        longest = rare_tokens(batch, self.characters, 0).places
        rarest, kept = _most(rank), rare_tokens(batch, self.ranks).kept
        noun = self._padded(batch, self._nouns).bool() & words
        among, against = torch.where(noun, rank, -1), torch.where(noun, -rank, -rank.amax() - 1)
        first, last = _most(among) & noun, _most(against) & noun
        apart = ~(rarest & longest[:, 0]).any(-1)
        places = torch.stack([noun, first, last, longest[:, 1], rarest, longest[:, 0]], 1)
        two = (noun.sum(-1) > 1) & ~(first & last).any(-1)
        asked = [kept, kept & two, kept & two, kept, kept & apart, kept & apart]
        return places & words[:, None], torch.stack(asked, 1)

    def of_query(
        self, batch: Batch
    ) -> tuple[Bool[Tensor, "batch target query key"], Bool[Tensor, "batch target query"]]:
        """The places of OF_QUERY, and which queries have three such tokens."""
        words = counted_keys(batch, Kind.ENCODER, REAL_TOKENS)
        at = torch.arange(words.shape[1])
        near = ((at[:, None] - at).abs() <= 1) & words[:, None] & words[:, :, None]
        rank = self.ranks[batch.source][:, None].expand_as(near)
        top = torch.where(near, rank, -1).amax(-1, keepdim=True)
        least = torch.where(near, rank, len(self.ranks)).amin(-1, keepdim=True)
        places = torch.stack([near, near & (rank == top), near & (rank == least)], 1)
        asked = rare_tokens(batch, self.ranks).kept[:, None] & (near.sum(-1) == 3)
        apart = asked & (top > least).squeeze(-1)
        return places, torch.stack([asked, apart, apart], 1)

    @cached_property
    def _nouns(self) -> list[list[int]]:
        """1 for every token of a noun or name."""
        return [
            [int(word >= 0 and tree.tags[word] in NOUNS) for word in tree.pieces.tolist()]
            for tree in self.reading.trees
        ]

    def _padded(self, batch: Batch, rows: list[list[int]]) -> Int[Tensor, "batch key"]:
        found = torch.zeros_like(batch.source)
        for row, sentence in enumerate(batch.sentences.tolist()):
            found[row, : len(rows[sentence])] = torch.tensor(rows[sentence])
        return found


def _most(values: Int[Tensor, "batch key"]) -> Keys:
    return values == values.amax(-1, keepdim=True)


class TargetShare(HeadMeasure):
    """Share of pointing at each of TARGETS, [layer, head, 9], over sentences that count.

    By sentence (`RareUnit.SENTENCE`) it is where the most attended token stands; the targets that
    are told by their distance from the query are asked by query only, and empty otherwise.
    """

    def __init__(
        self, rivals: Rivals, unit: RareUnit = RareUnit.QUERY, replicates: int = REPLICATES
    ) -> None:
        super().__init__(Kind.ENCODER, replicates)
        self.rivals = rivals
        self.unit = unit

    def contributions(self, tape: Recording, batch: Batch) -> tuple[Tensor, Tensor]:
        places, asked = self._asked(batch)
        key = self._keys(tape, batch)
        sentence = torch.arange(len(key))[:, None, None, None]
        query = torch.arange(key.shape[-1])
        hits = places.permute(0, 2, 3, 1)[sentence, query, key.clamp(min=0)]
        hits = hits & (key != NOWHERE)[..., None] & asked.mT[:, None, None]
        return hits.sum(-2).double(), asked.sum(-1).double()[:, None, None]

    def _asked(
        self, batch: Batch
    ) -> tuple[Bool[Tensor, "batch target asker key"], Bool[Tensor, "batch target asker"]]:
        places, kept = self.rivals.of_sentence(batch)
        queries = counted_queries(batch, Kind.ENCODER, REAL_TOKENS)
        if self.unit is RareUnit.QUERY:
            near, three = self.rivals.of_query(batch)
            whole = places[:, :, None].expand(-1, -1, near.shape[2], -1)
            return (torch.cat([near, whole], 1),
                    torch.cat([three, kept[:, :, None] & queries[:, None]], 1))  # fmt: skip
        none = torch.zeros_like(places[:, : len(OF_QUERY)])
        kept = torch.cat([none.any(-1), kept & queries.any(-1, keepdim=True)], 1)
        return torch.cat([none, places], 1)[:, :, None], kept[..., None]

    def _keys(self, tape: Recording, batch: Batch) -> Int[Tensor, "batch layer head asker"]:
        if self.unit is RareUnit.QUERY:
            return favourites(tape, batch, Kind.ENCODER, REAL_TOKENS.eos_keys).key
        pairs = counted_pairs(batch, Kind.ENCODER, REAL_TOKENS)
        pairs = pairs & counted_queries(batch, Kind.ENCODER, REAL_TOKENS)[:, :, None]

        def overall(weights: Tensor) -> Tensor:
            return pointed(visible(weights, pairs).float().sum(-2, keepdim=True))

        return by_layer(tape, Kind.ENCODER, overall)


class TargetChance(TargetShare):
    """The same for a head that points at every token equally often, [1, 1, 9]."""

    def contributions(self, tape: Recording, batch: Batch) -> tuple[Tensor, Tensor]:
        places, asked = self._asked(batch)
        keys = counted_keys(batch, Kind.ENCODER, REAL_TOKENS).sum(-1).clamp(min=1)
        share = places.sum(-1).double() / keys[:, None, None] * asked
        return share.sum(-1)[:, None, None], asked.sum(-1).double()[:, None, None]
