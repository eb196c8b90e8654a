"""Regularisers of diversity: a measure of heads, made small while a model is trained.

Each term is a measure of heads/diversity.py taken on the training batch. Li et al. 2018 maximise
a disagreement D, so their terms are -D here; Lee et al. 2019 make two of theirs small and one
large; the last two are the X-raying article's metrics in their scale-free form.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.diversity import (
    alignment,
    cosines,
    counted_maps,
    mean_of_pairs,
    normalised,
    overlaps,
    products,
    sentence_means,
    tokens_of,
    unit,
)
from headbook.heads.recording import Recording
from headbook.models.capture import Point
from headbook.models.transformer import Transformer
from headbook.text.batches import Batch
from headbook.types import Kind


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
    the learning curve tells the term without it.
    """

    term: Term
    strength: float
    kinds: tuple[Kind, ...]
    last: float = math.nan  # the term on the last batch

    @property
    def points(self) -> frozenset[Point]:
        return frozenset({_TERMS[self.term][0]})

    def __call__(self, model: Transformer, batch: Batch, tape: Recording) -> Tensor:
        found = self.value(batch, tape)
        self.last = float(found.detach())
        return self.strength * found

    def value(self, batch: Batch, tape: Recording) -> Float[Tensor, ""]:
        """The mean of the term over all blocks of the kinds, part of the tape's graph."""
        point, formula = _TERMS[self.term]
        found = []
        for kind in self.kinds:
            tokens = tokens_of(batch, kind, point)
            for layer in tape[kind, point]:
                maps = point is Point.WEIGHTS
                found.append(formula(counted_maps(layer, batch, kind) if maps else layer, tokens))
        return torch.stack(found).mean().float()

    def row(self, model: Transformer) -> dict[str, float]:
        """The term on the last batch, before λ."""
        return {"penalty": self.last}


def _agreement(vectors: Tensor, tokens: Tensor) -> Tensor:
    return cosines(vectors, tokens).mean() / tokens.sum()


def _overlap(maps: Tensor, tokens: Tensor) -> Tensor:
    return overlaps(maps).sum(0).mean() / tokens.sum()


def _contexts(contexts: Tensor, tokens: Tensor) -> Tensor:
    means = unit(sentence_means(contexts, tokens))
    return mean_of_pairs((means @ means.mT).square().mean(0))


def _scores(maps: Tensor, tokens: Tensor) -> Tensor:
    """A sentence's overlaps are the products of its maps, flattened."""
    return mean_of_pairs(normalised(overlaps(maps)).square().mean(0))


def _spread(contexts: Tensor, tokens: Tensor) -> Tensor:
    means = unit(sentence_means(contexts, tokens)).transpose(0, 1)
    if means.shape[1] < 2:
        return means.new_zeros(())
    return -mean_of_pairs((means @ means.mT).square()).mean()


def _alignment(vectors: Tensor, tokens: Tensor) -> Tensor:
    return mean_of_pairs(alignment(products(vectors, tokens)))


_TERMS: dict[Term, tuple[Point, Callable[[Tensor, Tensor], Tensor]]] = {
    Term.SUBSPACE: (Point.VALUES, _agreement),
    Term.POSITIONS: (Point.WEIGHTS, _overlap),
    Term.OUTPUTS: (Point.CONTEXT, _agreement),
    Term.CONTEXTS: (Point.CONTEXT, _contexts),
    Term.SCORES: (Point.WEIGHTS, _scores),
    Term.SPREAD: (Point.CONTEXT, _spread),
    Term.QUERIES: (Point.QUERIES, _alignment),
    Term.SPANS: (Point.CONTEXT, _alignment),
}
"""The point that each term reads, and its value in one layer, of the tokens that count."""
