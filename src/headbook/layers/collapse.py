"""Distance of a sentence's states from all being equal (Dong et al. 2021)."""

from math import comb

import torch
from jaxtyping import Float
from torch import Tensor


def residual_ratio(states: Float[Tensor, "token model"]) -> float:
    """‖X − 1 x̄ᵀ‖ / ‖X‖ with x̄ the mean token and ‖X‖ = √(‖X‖₁ ‖X‖_∞), as in the authors' code.

    0 when all tokens have the same state. The mean stands for the nearest such matrix.
    """
    return residual_norm(states) / float(composite_norm(states.double()))


def residual_norm(states: Float[Tensor, "token model"]) -> float:
    """‖X − 1 x̄ᵀ‖ alone."""
    states = states.double()
    return float(composite_norm(states - states.mean(0)))


def composite_norm(matrix: Float[Tensor, "row column"]) -> Float[Tensor, ""]:
    """√(largest column sum × largest row sum) of absolute values."""
    size = matrix.abs()
    return (size.sum(0).max() * size.sum(1).max()).sqrt()


def paths(layers: int, heads: int) -> Float[Tensor, " length"]:
    """Share of the paths of each length 0 … L through L layers of H heads with skips.

    A path takes the skip of a layer or one of its heads: C(L, l) Hˡ of length l.
    """
    counts = [comb(layers, length) * heads**length for length in range(layers + 1)]
    return torch.tensor([count / sum(counts) for count in counts], dtype=torch.float64)
