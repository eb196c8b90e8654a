"""Syntactic heads: how often a head points along a dependency."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from headbook.heads.arcs import Aligned, asked_of, word_attention
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import by_layer, pointed
from headbook.text.batches import Batch
from headbook.types import Kind


class SyntacticAccuracy(HeadMeasure):
    """Share of arcs whose asking word points at its partner, [layer, head, 8].

    The last axis is trees.RELATION_DIRECTIONS. Voita et al. 2019, section 5.2: EOS is left out
    before the argmax. A uniform head points at the word of most pieces, and nowhere where
    several have as many. `trees` are the aligned parses of the source sentences, looked up by their
    index in the corpus. Raises UserError where a parse has another number of pieces than the
    sentence.
    """

    def __init__(self, trees: Sequence[Aligned], replicates: int = REPLICATES) -> None:
        super().__init__(Kind.ENCODER, replicates)
        self.trees = trees

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head column"], Float[Tensor, "batch 1 1 column"]]:
        pieces, asked = asked_of(tape, self.trees, batch)
        answers = by_layer(
            tape, self.kind, lambda weights: pointed(word_attention(weights, pieces))
        )[asked.row, :, :, asked.index]
        right = (answers == asked.partner[:, None, None]).double()
        return asked.tally(right).movedim(1, -1), asked.counted()[:, None, None]
