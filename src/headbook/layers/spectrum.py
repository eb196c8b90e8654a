"""Number of singular values that attention weights need (Wang et al. 2020, section 3)."""

import torch
from jaxtyping import Float
from torch import Tensor


def cumulative(
    matrices: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch rank"]:
    """s_k = Σ_{i ≤ k} σ_i / Σ σ_i, singular values largest first, in float64."""
    values = torch.linalg.svdvals(matrices.double())
    return values.cumsum(-1) / values.sum(-1, keepdim=True)


def without_first(
    matrices: Float[Tensor, "*batch query key"],
) -> Float[Tensor, "*batch query key"]:
    """The matrix minus its best approximation of rank one.

    Rows of weights sum to one, so some rank one part is there whatever the head does.
    """
    left, values, right = torch.linalg.svd(matrices.double(), full_matrices=False)
    values[..., 0] = 0
    return (left * values[..., None, :]) @ right


def rank_share(
    matrices: Float[Tensor, "*batch query key"], share: float = 0.9
) -> Float[Tensor, "*batch"]:
    """Share of singular values, largest first, that hold this share of their sum."""
    found = cumulative(matrices)
    return ((found < share - 1e-12).sum(-1).double() + 1) / found.shape[-1]
