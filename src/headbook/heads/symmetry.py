"""Asymmetry of attention: between heads' projections and between tokens."""

from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.positional import PositionalShare
from headbook.heads.recording import Recording
from headbook.heads.tokens import Counting, by_layer, counted_keys, visible
from headbook.models.capture import Point
from headbook.types import Kind, UserError


def asymmetry(matrix: Float[Tensor, "*shape size size"]) -> Float[Tensor, "*shape"]:
    """The antisymmetric share of a matrix's energy, |M - M^T|^2 / (|M - M^T|^2 + |M + M^T|^2).

    0 for a symmetric matrix, 1 for an antisymmetric one, (n - 1) / 2n on average, so nearly one
    half, for one of independent entries of mean 0; unchanged by scaling; NaN for the zero matrix.
    """
    # The two energies add up to four times the matrix's own.
    difference, whole = (
        torch.linalg.vector_norm(each, dim=(-2, -1)) for each in (matrix - matrix.mT, matrix)
    )
    return (difference / (2 * whole)).square()


def projection_asymmetry(
    query: Float[Tensor, "*shape head model dim"], key: Float[Tensor, "*shape head model dim"]
) -> Float[Tensor, "*shape head"]:
    """Asymmetry of W_Q W_K^T, the bilinear form a head scores two tokens with; 0 when tied."""
    return asymmetry(query.double() @ key.double().mT)


def doubly_centred(
    matrix: Float[Tensor, "batch layer head size size"], counted: Bool[Tensor, "batch size size"]
) -> Float[Tensor, "batch layer head size size"]:
    """M − row means − column means + mean, over the counted cells, a square block; zero elsewhere.

    The matrix must be zero where it is not counted.
    """
    cells = counted[:, None, None].to(matrix)
    rows, columns = (
        matrix.sum(axis, keepdim=True) / cells.sum(axis, keepdim=True).clamp_min(1)
        for axis in (-1, -2)
    )
    mean = matrix.sum((-1, -2), keepdim=True) / cells.sum((-1, -2), keepdim=True).clamp_min(1)
    return (matrix - rows - columns + mean) * cells


class TokenAsymmetry(HeadMeasure):
    """Mean over sentences of the asymmetry of the captured matrix of tokens, [layer, head].

    `point` says which: scores or weights. EOS is left out as query and key; so are sentences of one
    token, which are symmetric whatever the head, and matrices that are zero. Weights are not of
    mean 0: a uniform head is symmetric, and independent weights lie well under one half.

    `centred` takes the mean of every row and column away first. A symmetric matrix stays symmetric;
    gone is what all tokens share, a symmetric part that can outweigh everything else.
    """

    def __init__(
        self, point: Point = Point.SCORES, replicates: int = REPLICATES, centred: bool = False
    ) -> None:
        if point not in (Point.SCORES, Point.WEIGHTS):
            raise UserError(
                f"token asymmetry: {point} is not token by token; use scores or weights"
            )
        super().__init__(Kind.ENCODER, replicates)
        self.point, self.centred = point, centred

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch layer head"]]:
        tokens = counted_keys(batch, self.kind, Counting())
        square = tokens[:, :, None] & tokens[:, None, :]

        def share_of(matrix: Tensor) -> Tensor:
            seen = visible(matrix, square).double()
            return asymmetry(doubly_centred(seen, square) if self.centred else seen)

        share = by_layer(tape, self.kind, share_of, self.point)
        counted = (tokens.sum(-1) > 1)[:, None, None] & ~share.isnan()
        return torch.where(counted, share, 0.0), counted.double()


class Part(StrEnum):
    """One of the two matrices that a square matrix is the sum of."""

    SYMMETRIC = "symmetric"  # (S + Sᵀ) / 2
    ANTISYMMETRIC = "antisymmetric"  # (S − Sᵀ) / 2


def part_of(
    matrix: Float[Tensor, "*shape size size"], part: Part
) -> Float[Tensor, "*shape size size"]:
    """The symmetric or the antisymmetric part."""
    sign = 1 if part is Part.SYMMETRIC else -1
    return (matrix + sign * matrix.mT) / 2


class PartPositionalShare(PositionalShare):
    """Offsets at which queries would point by one part of the scores alone, [layer, head, offset].

    Every block gets the model's own states, so each head is changed by itself.
    """

    point = Point.SCORES

    def __init__(self, part: Part, replicates: int = REPLICATES) -> None:
        super().__init__(Kind.ENCODER, replicates=replicates)
        self.part = part

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head offset"], Float[Tensor, "batch 1 1 offset"]]:
        real = batch.source_mask
        square = real[:, None, :, None] & real[:, None, None, :]
        weights = [
            part_of(scores.masked_fill(~square, 0.0), self.part)
            .masked_fill(~real[:, None, None], -torch.inf)
            .softmax(-1)
            for scores in tape[self.kind, Point.SCORES]
        ]
        return super().contributions({(self.kind, Point.WEIGHTS): weights}, batch)
