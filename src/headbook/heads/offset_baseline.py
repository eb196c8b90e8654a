"""Positions of a relation's partner, and accuracy of pointing at the most frequent one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.arcs import NO_WORD, Aligned, PieceRule, asked_of
from headbook.heads.measure import REPLICATES, HeadMeasure, RatioSums, Selection, best_of
from headbook.heads.recording import Recording
from headbook.trees import Direction, Tree
from headbook.types import Kind

REACH = 20
"""Largest offset looked at; longer arcs count as missed."""


class OffsetShare(HeadMeasure):
    """Share of questions answered right by pointing at a fixed offset, [offset, 8].

    The offset is partner minus query, counted in the units of the piece rule: words for SUM, FIRST
    and LAST, pieces for WHOLE and ANY. In words this is also the histogram of the partners'
    relative positions (Voita et al. 2019, Figure 3): the columns sum to 1 where no arc is longer
    than `reach`. The tape is not read.
    """

    def __init__(
        self,
        trees: Sequence[Aligned],
        rule: PieceRule = PieceRule.SUM,
        reach: int = REACH,
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(Kind.ENCODER, replicates)
        self.trees = trees
        self.rule = rule
        self.reach = reach

    @property
    def offsets(self) -> Int[Tensor, " offset"]:
        """Partner position minus query position, along the first axis."""
        return torch.arange(-self.reach, self.reach + 1)

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch offset column"], Float[Tensor, "batch 1 column"]]:
        _, asked = asked_of(tape, self.trees, batch, self.rule)
        words = torch.nn.functional.pad(asked.words, (self.reach, self.reach), value=NO_WORD)
        place = asked.index[:, None] + self.reach + self.offsets.to(words.device)
        right = words[asked.row[:, None], place] == asked.partner[:, None]
        return asked.tally(right.double()).movedim(1, -1), asked.counted()[:, None]


def first_word_accuracy(trees: Sequence[Tree], relation: str, direction: Direction) -> float:
    """Share of a relation's arcs whose partner is the first word of the sentence; NaN without arcs.

    No fixed offset finds it: in short sentences the first word is a verb's subject more often than
    the word before the verb is.
    """
    arcs = [arc for tree in trees for arc in tree.arcs() if arc.relation == relation]
    down = direction is Direction.HEAD_TO_DEPENDENT
    partners = [arc.dependent if down else arc.head for arc in arcs]
    return partners.count(0) / len(partners) if partners else math.nan


@dataclass(frozen=True)
class OffsetBaseline:
    """The most frequent offset of each relation-direction and the accuracy of pointing there."""

    offset: Int[Tensor, " column"]
    chosen: Float[Tensor, " column"]
    accuracy: Float[Tensor, " column"]
    low: Float[Tensor, " column"]
    high: Float[Tensor, " column"]


def offset_baseline(sums: RatioSums, selection: Selection = Selection.HALVES) -> OffsetBaseline:
    """The positional baseline of Voita et al. 2019, section 5.2, from the sums of an `OffsetShare`;
    `selection` as for `best_head`."""
    best = best_of(sums, lambda values: values, selection)
    reach = sums.ratio().shape[0] // 2
    return OffsetBaseline(best.index - reach, best.chosen, best.score, best.low, best.high)
