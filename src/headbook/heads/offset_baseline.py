"""Positions of a relation's partner, and accuracy of pointing at the most frequent one."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.heads.arcs import Aligned, asked_of
from headbook.heads.measure import REPLICATES, HeadMeasure, RatioSums, Selection, best_of
from headbook.heads.recording import Recording
from headbook.text.batches import Batch
from headbook.types import Kind

REACH = 20
"""Largest offset looked at; longer arcs count as missed."""


class OffsetShare(HeadMeasure):
    """Share of questions answered right by pointing at a fixed offset, [offset, 8].

    The offset is partner minus query, in words. This is also the histogram of the partners'
    relative positions (Voita et al. 2019, Figure 3): the columns sum to 1 where no arc is longer
    than `reach`. The tape is not read.
    """

    def __init__(
        self,
        trees: Sequence[Aligned],
        reach: int = REACH,
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(Kind.ENCODER, replicates)
        self.trees = trees
        self.reach = reach

    @property
    def offsets(self) -> Int[Tensor, " offset"]:
        """Partner position minus query position, along the first axis."""
        return torch.arange(-self.reach, self.reach + 1)

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch offset column"], Float[Tensor, "batch 1 column"]]:
        _, asked = asked_of(tape, self.trees, batch)
        right = (asked.partner - asked.index)[:, None] == self.offsets.to(asked.index.device)
        return asked.tally(right.double()).movedim(1, -1), asked.counted()[:, None]


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
