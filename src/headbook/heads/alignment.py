"""Word alignment read off attention: the source word that each target word looks at most.

Attention to a word is the sum over its pieces, from a word the mean over them. Links are compared
with sure and possible ones (Och and Ney 2003): with A the links of a head, S the sure and P ⊇ S the
possible ones, AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.arcs import NO_WORD
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import pointed
from headbook.models.capture import Point
from headbook.types import Kind, UserError


class Step(StrEnum):
    """The decoder's step whose attention stands for a target word."""

    OUTPUT = "output"
    """The step that predicts the word, as in guided training of alignments."""
    INPUT = "input"
    """The step that reads it, one later (Kobayashi et al. 2020, section 5)."""


@dataclass(frozen=True)
class WordPair:
    """A sentence pair on a model's tokens, with the links that are right.

    `source` and `target` hold each token's word, NO_WORD for special tokens. `groups` marks the
    links that count as right in each of several groups of target words; a target word without one
    in a group is not asked there.
    """

    source: Int[Tensor, " piece"]
    target: Int[Tensor, " token"]
    sure: Bool[Tensor, "target_word source_word"]
    possible: Bool[Tensor, "target_word source_word"]
    groups: Bool[Tensor, "group target_word source_word"]


class _Links(HeadMeasure):
    """Looks the pairs up by their index in the corpus; cross-attention only."""

    def __init__(
        self, pairs: Sequence[WordPair], step: Step = Step.OUTPUT, replicates: int = REPLICATES
    ) -> None:
        super().__init__(Kind.CROSS, replicates)
        self.pairs, self.step = pairs, step

    def _rows(
        self, tape: Recording, batch: Batch
    ) -> Iterator[tuple[WordPair, Int[Tensor, "layer head target_word"]]]:
        """Each sentence's pair, and the source word every target word points at."""
        layers = tape[self.kind, Point.WEIGHTS]
        for row, sentence in enumerate(batch.sentences.tolist()):
            pair = self.pairs[sentence]
            lengths = int(batch.target_mask[row].sum()), int(batch.source_mask[row].sum())
            if (len(pair.target), len(pair.source)) != lengths:
                raise UserError(
                    f"sentence {sentence}: words of {len(pair.target)} and {len(pair.source)} "
                    f"tokens where the model has {lengths[0]} and {lengths[1]}"
                )
            weights = torch.stack([each[row] for each in layers])
            yield pair, links(weights[..., : lengths[0], : lengths[1]], pair, self.step)


def links(
    weights: Float[Tensor, "layer head token piece"], pair: WordPair, step: Step = Step.OUTPUT
) -> Int[Tensor, "layer head target_word"]:
    """The source word of most attention for every target word; -1 on a tie or for no piece."""
    if step is Step.INPUT:
        # The step that reads a token is the next one; behind the last token there is none.
        weights = torch.cat([weights[..., 1:, :], weights[..., -1:, :]], dim=-2)
    words = pair.sure.shape
    to_source = _belongs(pair.source, words[1]).to(weights)
    of_target = _belongs(pair.target, words[0]).to(weights)
    mean = of_target / of_target.sum(0).clamp(min=1)
    return pointed(torch.einsum("lhtp,tw,ps->lhws", weights, mean, to_source)[None])[0]


def _belongs(words: Int[Tensor, " piece"], count: int) -> Bool[Tensor, "piece word"]:
    return (words[:, None] == torch.arange(count)) & (words[:, None] != NO_WORD)


def _right(
    found: Int[Tensor, "layer head target_word"], wanted: Bool[Tensor, "target_word source_word"]
) -> Float[Tensor, "layer head"]:
    """Number of predicted links among the wanted ones."""
    hits = torch.gather(wanted.expand(*found.shape[:2], -1, -1), -1, found.clamp(min=0)[..., None])[
        ..., 0
    ]
    return (hits & (found >= 0)).double().sum(-1)


class AlignmentAgreement(_Links):
    """1 − AER of every head, [layer, head]; between 0 and 1."""

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch layer head"]]:
        agreed, counted = [], []
        for pair, found in self._rows(tape, batch):
            agreed.append(_right(found, pair.sure) + _right(found, pair.possible))
            counted.append((found >= 0).double().sum(-1) + pair.sure.sum().double())
        return torch.stack(agreed), torch.stack(counted)


class LinkPrecision(_Links):
    """Share of the target words of each group that point at a right source word.

    [layer, head, group]; NaN for a group that no sentence has.
    """

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head group"], Float[Tensor, "batch 1 1 group"]]:
        hits, asked = [], []
        for pair, found in self._rows(tape, batch):
            hits.append(torch.stack([_right(found, group) for group in pair.groups], dim=-1))
            asked.append(pair.groups.any(-1).sum(-1).double()[None, None])
        return torch.stack(hits), torch.stack(asked)


def diagonal(batch: Batch) -> dict[tuple[Kind, Point], list[Tensor]]:
    """A recording of one head that looks at the source token as far through its sentence: order
    without words. EOS is left out on both sides."""
    tokens, pieces = batch.target_out.shape[1], batch.source.shape[1]
    weights = torch.zeros(len(batch), 1, tokens, pieces)
    for row, (length, size) in enumerate(
        zip(batch.target_mask.sum(1).tolist(), batch.source_mask.sum(1).tolist(), strict=True)
    ):
        step = max(size - 2, 0) / max(length - 2, 1)
        places = (torch.arange(length - 1) * step).round().long()
        weights[row, 0, torch.arange(length - 1), places] = 1.0
    return {(Kind.CROSS, Point.WEIGHTS): [weights]}
