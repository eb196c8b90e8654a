"""Similarity of the spaces that heads span: products of one head's vectors with another's.

Two of the X-raying article's metrics, raw and scale-free; linear CKA; Lee et al.'s intra-head term.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from headbook.heads.recording import Recording
from headbook.heads.tokens import counted_keys, counted_queries
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

OF_QUERIES = (Point.QUERIES, Point.CONTEXT)
OF_KEYS = (Point.KEYS, Point.VALUES)
Pairs = Float[Tensor, "layer head other"]


@dataclass(frozen=True)
class Grams:
    """X_iᵀ X_j of every two heads of a layer, with X_i [token, dim] over all tokens counted."""

    products: Float[Tensor, "layer head other dim dim"]
    sums: Float[Tensor, "layer head dim"]  # of the vectors themselves
    tokens: int

    def orthogonality(self) -> Pairs:
        """Σ |entries of Q_iᵀ Q_j|, 0 on the diagonal: the article's first metric, on queries.

        Raw: it grows with the tokens, the width of a head and the variance of what is measured.
        """
        return _without_diagonal(self.products.abs().sum((-2, -1)))

    def non_orthogonality(self) -> Pairs:
        """‖C_iᵀ C_j‖_F, 0 on the diagonal: the article's second metric, on contexts; as raw."""
        return _without_diagonal(torch.linalg.matrix_norm(self.products))

    def alignment(self) -> Pairs:
        """‖X_iᵀ X_j‖_F / √(‖X_iᵀ X_i‖_F ‖X_jᵀ X_j‖_F): scale-free form of both, 1 on the diagonal.

        Between 0, where no direction is shared, and 1; unchanged when all vectors are multiplied by
        a constant, or turned by a rotation of the head. NaN for a head whose vectors are all zero.
        """
        return _normalised(torch.linalg.matrix_norm(self.products))


def grams(tape: Recording, batch: Batch, kind: Kind, point: Point) -> Grams:
    """Of one batch, part of the graph of its forward pass."""
    counted = counted_tokens(batch, kind, point)
    # [head token dim] of the tokens that count: padding may hold anything
    layers = [each.movedim(1, 0)[:, counted].double() for each in tape[kind, point]]
    products = [torch.einsum("hnd,gne->hgde", each, each) for each in layers]
    sums = torch.stack([each.sum(1) for each in layers])
    return Grams(torch.stack(products), sums, int(counted.sum()))


class HeadGrams(Metric):
    """Accumulates `Grams` batch by batch; memory does not grow with the tokens."""

    full_state_update = False

    def __init__(self, kind: Kind, point: Point) -> None:
        super().__init__()
        if point not in (*OF_QUERIES, *OF_KEYS):
            raise UserError(f"diversity of {point}: give queries, keys, values or context")
        self.kind, self.point = kind, point
        for name in ("products", "sums", "tokens"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, tape: Recording, batch: Batch) -> None:
        found = grams(tape, batch, self.kind, self.point)
        # Not in place: a sum made under inference mode could not be added to outside it.
        self.products = self.products + found.products
        self.sums = self.sums + found.sums
        self.tokens = self.tokens + found.tokens

    def compute(self) -> Pairs:
        """The scale-free alignment."""
        return self.grams().alignment()

    def grams(self) -> Grams:
        """The accumulated sums.

        UserError where no token was measured: an empty probe batch has no diversity.
        """
        if not int(self.tokens):
            raise UserError(f"diversity of {self.point}: no token was measured; give some text")
        return Grams(self.products, self.sums, int(self.tokens))


def counted_tokens(batch: Batch, kind: Kind, point: Point) -> Tensor:
    """True at the tokens whose vectors count, [batch, token]: all real ones, EOS among them."""
    if point in OF_KEYS:
        return counted_keys(batch, kind, boundary=True)
    return counted_queries(batch, kind, boundary=True)


def sentence_means(tape: Recording, batch: Batch, kind: Kind) -> list[Tensor]:
    """Each head's mean context over a sentence's tokens, [batch, head, dim] for every layer."""
    counted = counted_tokens(batch, kind, Point.CONTEXT)[:, None, :, None]
    return [
        each.masked_fill(~counted, 0.0).double().sum(2) / counted.sum(2)
        for each in tape[kind, Point.CONTEXT]
    ]


def unit(vectors: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
    """The vectors at length 1. A zero vector has no direction: it stays, and so has no gradient."""
    zero = (vectors == 0).all(-1, keepdim=True)
    return torch.nn.functional.normalize(vectors.masked_fill(zero, 0.0), dim=-1)


def _without_diagonal(pairs: Pairs) -> Pairs:
    return pairs - torch.diag_embed(pairs.diagonal(dim1=-2, dim2=-1))


def _normalised(pairs: Pairs) -> Pairs:
    own = pairs.diagonal(dim1=-2, dim2=-1)
    return pairs / (own[..., :, None] * own[..., None, :]).sqrt()
