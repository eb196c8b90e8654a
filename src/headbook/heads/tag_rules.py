"""The part-of-speech rule: how far "the nearest noun after the verb" gets without any attention.

A baseline for syntactic heads that reads gold parts of speech and order, and no tree. It is
stronger than the positional baseline of Voita et al. 2019, section 5.2, and ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headbook.heads.arcs import NO_WORD, Aligned, asked_of
from headbook.heads.measure import REPLICATES, HeadMeasure, RatioSums, Selection, best_of
from headbook.heads.recording import Recording
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

TAGS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip
"""The universal parts of speech, https://universaldependencies.org/u/pos/."""

CLASSES = (
    *((tag,) for tag in TAGS),
    ("NOUN", "PROPN"),
    ("NOUN", "PROPN", "PRON"),
    ("VERB", "AUX"),
    ("VERB", "ADJ"),
    ("VERB", "ADJ", "ADV"),
    ("VERB", "ADJ", "NOUN"),
)
"""Sets of tags a rule may look for: every tag, nominals, and words that have dependents.

Few enough to be named. On English treebanks all sets of up to three tags do no better.
"""


class Side(StrEnum):
    """Direction in which a rule looks from the query."""

    BEFORE = "before"
    AFTER = "after"
    EITHER = "either"
    """On both sides; of two equally near words the one before."""


@dataclass(frozen=True)
class TagRule:
    """Point at the nearest word on this side, the query left out, that has one of the tags."""

    tags: tuple[str, ...]
    side: Side

    def __str__(self) -> str:
        what = " or ".join(self.tags)
        named = {Side.BEFORE: "previous", Side.AFTER: "next", Side.EITHER: "nearest"}
        return f"{named[self.side]} {what}"


RULES = tuple(TagRule(tags, side) for tags, side in product(CLASSES, Side))
"""The candidates, in the order of the measure's first axis."""


@runtime_checkable
class Tagged(Aligned, Protocol):
    """An aligned parse that also has the universal part of speech of every word."""

    tags: tuple[str, ...]


class TagRuleShare(HeadMeasure):
    """Share of questions that each of `RULES` answers right, [rule, 8].

    The tape is not read. Raises UserError for a parse without parts of speech.
    """

    def __init__(
        self,
        trees: Sequence[Tagged],
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(Kind.ENCODER, replicates)
        self.trees = trees

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch rule column"], Float[Tensor, "batch 1 column"]]:
        _, asked = asked_of(tape, self.trees, batch)
        answers = nearest(self._members(batch))
        right = answers[asked.row, asked.index] == asked.partner[:, None]
        return asked.tally(right.double()).movedim(1, -1), asked.counted()[:, None]

    def _members(self, batch: Batch) -> Bool[Tensor, "batch word class"]:
        """Words that belong to each of CLASSES."""
        rows = [_classes(self.trees[number].tags, number) for number in batch.sentences.tolist()]
        return pad_sequence(rows, batch_first=True).to(batch.source.device)


def nearest(members: Bool[Tensor, "batch word class"]) -> Int[Tensor, "batch word rule"]:
    """The word each rule points at from each word, NO_WORD where there is none."""
    words = members.shape[1]
    places = torch.arange(words, device=members.device)[:, None]
    at_or_before = torch.where(members, places, NO_WORD).cummax(1).values
    at_or_after = torch.where(members, places, words).flip(1).cummin(1).values.flip(1)
    # The query itself is no answer: each looks from its neighbour.
    pad = torch.nn.functional.pad
    before = pad(at_or_before[:, :-1], (0, 0, 1, 0), value=NO_WORD)
    after = pad(at_or_after[:, 1:], (0, 0, 0, 1), value=words)
    closer = (before != NO_WORD) & ((after == words) | (places - before <= after - places))
    after = torch.where(after == words, NO_WORD, after)
    return torch.stack([before, after, torch.where(closer, before, after)], dim=-1).flatten(2)


@dataclass(frozen=True)
class TagBaseline:
    """The best rule of each relation-direction, an index into RULES, and its accuracy."""

    rule: Int[Tensor, " column"]
    chosen: Float[Tensor, " column"]
    accuracy: Float[Tensor, " column"]
    low: Float[Tensor, " column"]
    high: Float[Tensor, " column"]

    @property
    def names(self) -> list[str]:
        """ "next NOUN" and so on; empty where nothing was asked."""
        return [str(RULES[rule]) if rule >= 0 else "" for rule in self.rule.tolist()]


def tag_baseline(sums: RatioSums, selection: Selection = Selection.HALVES) -> TagBaseline:
    """The best part-of-speech rules, from the sums of a `TagRuleShare`; chosen and scored as the
    best heads are, so that the two may be compared on the same resamples."""
    best = best_of(sums, lambda values: values, selection)
    return TagBaseline(best.index, best.chosen, best.score, best.low, best.high)


def _classes(tags: Sequence[str], sentence: int) -> Bool[Tensor, "word class"]:
    if not tags:
        raise UserError(
            f"parse of sentence {sentence} has no parts of speech; use a gold treebank, or a "
            "pipeline with a tagger"
        )
    return torch.tensor([[tag in each for each in CLASSES] for tag in tags])
