"""Distance of two representations of the same tokens: projection-weighted CCA.

Morcos, Raghu and Bengio (2018): canonical correlation analysis finds directions in either
representation whose values correlate most; the mean of these correlations, weighted by how much of
the representation each direction accounts for, is the similarity. Any invertible linear map of
either representation leaves the correlations as they are; the weights, which add up what a
direction shares with each dimension, it may move a little.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.types import UserError

TINY = 1e-6
"""Of the largest singular value: directions below it are rounding, and are left out."""


class Basis(NamedTuple):
    """Centred states as `scores @ loadings`, the columns of `scores` orthonormal."""

    scores: Float[Tensor, "token rank"]
    loadings: Float[Tensor, "rank model"]


def basis(states: Float[Tensor, "token model"]) -> Basis:
    """UserError where there are no more tokens than dimensions: any two would then be alike."""
    if states.shape[0] <= states.shape[1]:
        raise UserError(
            f"{states.shape[0]} tokens are too few to compare representations of width "
            f"{states.shape[1]}: give more sentences"
        )
    centred = states.double() - states.double().mean(0)
    left, sizes, right = torch.linalg.svd(centred, full_matrices=False)
    kept = sizes > TINY * sizes[0]
    return Basis(left[:, kept], sizes[kept, None] * right[kept])


def similarity(one: Basis, other: Basis) -> float:
    """PWCCA, Σ_i α_i ρ_i / Σ_i α_i, weighted by the first: α_i = Σ_j |⟨h_i, x_j⟩|.

    h_i is the i-th canonical variate of the first, x_j its j-th dimension over the tokens.
    """
    left, found, _ = torch.linalg.svd(one.scores.T @ other.scores, full_matrices=False)
    weights = (left.T @ one.loadings).abs().sum(1)
    return float((weights * found.clamp(max=1.0)).sum() / weights.sum())


def distance(one: Basis, other: Basis) -> float:
    """1 - PWCCA, 0 to 1, mean of weighting by either: the same both ways."""
    return 1 - (similarity(one, other) + similarity(other, one)) / 2


def shuffled_distance(one: Basis, other: Basis, seed: int) -> float:
    """The distance of representations that have nothing to do with each other, of as many tokens.

    Below 1: with few tokens a dimension, some direction always fits.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(other.scores), generator=generator)
    return distance(one, Basis(other.scores[order], other.loadings))
