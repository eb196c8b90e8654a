"""Asymmetry of attention between tokens."""

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import by_layer, counted_keys, visible
from headbook.models.capture import Point
from headbook.text.batches import Batch
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


class TokenAsymmetry(HeadMeasure):
    """Mean over sentences of the asymmetry of the captured matrix of tokens, [layer, head].

    `point` says which: scores or weights. EOS is left out as query and key; so are sentences of one
    token, which are symmetric whatever the head, and matrices that are zero. Weights are not of
    mean 0: a uniform head is symmetric, and independent weights lie well under one half.
    """

    def __init__(self, point: Point = Point.SCORES, replicates: int = REPLICATES) -> None:
        if point not in (Point.SCORES, Point.WEIGHTS):
            raise UserError(
                f"token asymmetry: {point} is not token by token; use scores or weights"
            )
        super().__init__(Kind.ENCODER, replicates)
        self.point = point

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch layer head"]]:
        tokens = counted_keys(batch, self.kind)
        square = tokens[:, :, None] & tokens[:, None, :]

        def share_of(matrix: Tensor) -> Tensor:
            return asymmetry(visible(matrix, square).double())

        share = by_layer(tape, self.kind, share_of, self.point)
        counted = (tokens.sum(-1) > 1)[:, None, None] & ~share.isnan()
        return torch.where(counted, share, 0.0), counted.double()
