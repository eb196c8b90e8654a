"""Regularisers of diversity: a measure of heads, made small while a model is trained.

Each term is a measure of heads/diversity_*.py taken on the training batch. Li et al. 2018 maximise
a disagreement D, so their terms are -D here; Lee et al. 2019 make two of theirs small and one
large; the last two are the X-raying article's metrics in their scale-free form.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.diversity_grams import grams, sentence_means, unit
from headbook.heads.diversity_maps import MapOverlap
from headbook.heads.diversity_pairs import (
    PairCosine,
    SentenceCosine,
    disagreement,
    mean_of_pairs,
)
from headbook.heads.measure import HeadMeasure
from headbook.heads.recording import Recording
from headbook.models.capture import Point
from headbook.models.transformer import Transformer
from headbook.text.batches import Batch
from headbook.training.loop import Trainer
from headbook.types import Kind, UserError

Layers = Float[Tensor, " layer"]
Formula = Callable[[Recording, Batch, Kind], Layers]


class Term(StrEnum):
    """The quantity that is minimised; the text is its name in tables."""

    SUBSPACE = "subspaces disagree"
    """Li 2018, -D_subspace: (1/H²) Σ_ij cos of two heads' values, mean over tokens."""
    POSITIONS = "positions disagree"
    """Li 2018, -D_position: (1/H²) Σ_ij Σ_k a_i a_j of two heads' maps, mean over queries."""
    OUTPUTS = "outputs disagree"
    """Li 2018, -D_output: (1/H²) Σ_ij cos of two heads' contexts before W_O, mean over tokens."""
    CONTEXTS = "contexts orthogonal"
    """Lee 2019, eq. 4: cos² of sentences' mean contexts, mean over i ≠ j and sentences."""
    SCORES = "attention orthogonal"
    """Lee 2019, eq. 5: cos² of whole maps, mean over i ≠ j and sentences."""
    SPREAD = "one head's sentences alike"
    """Lee 2019, eq. 8, which they make large: minus cos² of one head's contexts of two sentences,
    mean over heads and pairs; 0 where a batch has one sentence."""
    QUERIES = "queries orthogonal"
    """X-raying article, metric 1, scale-free: ‖Q_iᵀ Q_j‖ / √(‖Q_iᵀ Q_i‖ ‖Q_jᵀ Q_j‖) in Frobenius
    norms over the tokens of the batch, mean over i ≠ j."""
    SPANS = "context spans orthogonal"
    """X-raying article, metric 2, scale-free: the same of contexts."""


@dataclass
class Regulariser:
    """`strength` times the mean of a term over all blocks of these kinds of attention.

    Added to the loss in nats per target token, as λ in Li et al. 2018, where the likelihood is so;
    the learning curve tells the term without it. UserError for what is no strength.
    """

    term: Term
    strength: float
    kinds: tuple[Kind, ...]
    last: float = math.nan  # the term on the last batch

    def __post_init__(self) -> None:
        if not 0 <= self.strength < math.inf:
            raise UserError(f"the strength λ is {self.strength}; give a number of 0 or more")

    @property
    def points(self) -> frozenset[Point]:
        """The point that the term reads."""
        return frozenset({_TERMS[self.term][0]})

    def __call__(self, model: Transformer, batch: Batch, tape: Recording) -> Tensor:
        found = value(self, batch, tape)
        self.last = float(found.detach())
        return self.strength * found

    def row(self, model: Transformer) -> dict[str, float]:
        """The term on the last batch, before λ."""
        return {"penalty": self.last}


def regularise(trainer: Trainer, regulariser: Regulariser) -> None:
    """Adds the penalty to what the trainer minimises.

    UserError for a kind whose blocks have not all the same number of heads, 2 or more.
    """
    for kind in regulariser.kinds:
        counts = {block.heads for other, _, block in trainer.model.attentions() if other is kind}
        if len(counts) != 1 or max(counts) < 2:
            raise UserError(
                f"{regulariser.term}: {kind} attention has {sorted(counts) or 'no'} heads a block; "
                "give every block the same number, 2 or more"
            )
    trainer.addition = regulariser


def value(regulariser: Regulariser, batch: Batch, tape: Recording) -> Float[Tensor, ""]:
    """The mean of the term over all blocks of the kinds, part of the tape's graph."""
    _, formula = _TERMS[regulariser.term]
    return torch.cat([formula(tape, batch, kind) for kind in regulariser.kinds]).mean().float()


def _vectors(point: Point, tape: Recording, batch: Batch, kind: Kind) -> Layers:
    return -disagreement(_ratio(PairCosine(kind, point), tape, batch))


def _positions(tape: Recording, batch: Batch, kind: Kind) -> Layers:
    return -disagreement(_ratio(MapOverlap(kind), tape, batch))


def _contexts(tape: Recording, batch: Batch, kind: Kind) -> Layers:
    return mean_of_pairs(_ratio(SentenceCosine(kind), tape, batch))


def _scores(tape: Recording, batch: Batch, kind: Kind) -> Layers:
    """A sentence's overlaps are the products of its maps, flattened."""
    overlaps, _ = MapOverlap(kind).contributions(tape, batch)
    return mean_of_pairs(_cosines(overlaps).square().mean(0))


def _spread(tape: Recording, batch: Batch, kind: Kind) -> Layers:
    contexts = [unit(each) for each in sentence_means(tape, batch, kind)]
    if len(batch) < 2:
        return torch.stack([each.new_zeros(()) for each in contexts])
    cosines = torch.stack([torch.einsum("bhd,chd->hbc", each, each) for each in contexts])
    return -mean_of_pairs(cosines.square()).mean(-1)


def _alignment(point: Point, tape: Recording, batch: Batch, kind: Kind) -> Layers:
    norms = torch.linalg.matrix_norm(grams(tape, batch, kind, point).products)
    return mean_of_pairs(_cosines(norms))


def _ratio(
    measure: HeadMeasure, tape: Recording, batch: Batch
) -> Float[Tensor, "layer head other"]:
    """Value of the measure on this batch alone, with its gradient."""
    numerator, denominator = measure.contributions(tape, batch)
    return numerator.sum(0) / denominator.sum(0)


def _cosines(
    pairs: Float[Tensor, "*shape head other"],
) -> Float[Tensor, "*shape head other"]:
    """p_ij / √(p_ii p_jj), and 0 for a head that has nothing.

    Dropout may leave a head nothing where few tokens are seen. The root is of 1 there: at 0 its
    gradient would be NaN, and a training would stop.
    """
    own = pairs.diagonal(dim1=-2, dim2=-1)
    own = torch.where(own > 0, own, 1.0)
    return pairs / (own[..., :, None] * own[..., None, :]).sqrt()


_TERMS: dict[Term, tuple[Point, Formula]] = {
    Term.SUBSPACE: (Point.VALUES, partial(_vectors, Point.VALUES)),
    Term.POSITIONS: (Point.WEIGHTS, _positions),
    Term.OUTPUTS: (Point.CONTEXT, partial(_vectors, Point.CONTEXT)),
    Term.CONTEXTS: (Point.CONTEXT, _contexts),
    Term.SCORES: (Point.WEIGHTS, _scores),
    Term.SPREAD: (Point.CONTEXT, _spread),
    Term.QUERIES: (Point.QUERIES, partial(_alignment, Point.QUERIES)),
    Term.SPANS: (Point.CONTEXT, partial(_alignment, Point.CONTEXT)),
}
"""The point that each term reads, and its value by layer."""
