"""Syntactic heads: how often a head points along a dependency."""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.arcs import (
    Aligned,
    PieceRule,
    Questions,
    asked_of,
    boundary_of,
    word_attention,
)
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import NOWHERE, EosKeys, by_layer, favourites, pointed
from headbook.types import Kind, UserError


class SyntacticAccuracy(HeadMeasure):
    """Share of arcs whose query end points at its partner, [layer, head, 8].

    The last axis is headbook.trees.RELATION_DIRECTIONS. Voita et al. 2019, section 5.2: EOS is left
    out before the argmax; the piece rule is ours (the paper is silent). Under PieceRule.SUM a
    uniform head points at the word of most pieces, and nowhere where several have as many. `trees`
    are the aligned parses of the source sentences, looked up by their index in the corpus. Raises
    UserError where a parse has another number of pieces than the sentence.
    """

    def __init__(
        self,
        trees: Sequence[Aligned],
        rule: PieceRule = PieceRule.SUM,
        eos_keys: EosKeys = EosKeys.EXCLUDED,
        kind: Kind = Kind.ENCODER,
        replicates: int = REPLICATES,
    ) -> None:
        if kind is not Kind.ENCODER:
            raise UserError(
                f"syntactic: parses are of source sentences, not for {kind}; use encoder"
            )
        super().__init__(kind, replicates)
        self.trees = trees
        self.rule = rule
        self.eos_keys = eos_keys

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head column"], Float[Tensor, "batch 1 1 column"]]:
        pieces, asked = asked_of(tape, self.trees, batch, self.rule)
        answers = self._pointed(tape, batch, pieces)[asked.row, :, :, asked.index]
        hits = asked.tally(_right(answers, asked).double())
        return hits.movedim(1, -1), asked.counted()[:, None, None]

    def _pointed(
        self, tape: Recording, batch: Batch, pieces: Int[Tensor, "batch piece"]
    ) -> Int[Tensor, "batch layer head unit"]:
        """The unit every unit points at."""
        if self.rule.by_piece:
            return favourites(tape, batch, self.kind, self.eos_keys).key
        boundary = boundary_of(batch) if self.eos_keys is EosKeys.COUNTED else None
        return by_layer(
            tape,
            self.kind,
            lambda weights: pointed(word_attention(weights, pieces, boundary, self.rule)),
        )


def _right(
    answers: Int[Tensor, "question layer head"], asked: Questions
) -> Float[Tensor, "question layer head"]:
    """1 where the unit answered is the partner, or a piece of it."""
    word = asked.words[asked.row[:, None, None], answers.clamp(min=0)]
    return ((answers != NOWHERE) & (word == asked.partner[:, None, None])).float()
