"""Feature maps φ of linear attention, and what the delta rule's memory returns (page 44).

Linear attention replaces exp(q·k) by φ(q)·φ(k) (Katharopoulos et al. 2020); Schlag, Irie and
Schmidhuber (2021) read it as a matrix W that every position writes to.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

Features = Callable[[Float[Tensor, "*batch dim"]], Float[Tensor, "*batch feature"]]


def elu_plus_one(x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """φ(x) = ELU(x) + 1 (Katharopoulos et al. 2020)."""
    return functional.elu(x) + 1


def dpfp(x: Float[Tensor, "*batch dim"], nu: int = 1) -> Float[Tensor, "*batch feature"]:
    """Deterministic parameter-free projection, 2 ν dim features (Schlag et al. 2021, equation 37).

    With r = ReLU([x; -x]) they are r_m r_{m+j} for j = 1 … ν, indices modulo 2 dim.
    """
    rectified = torch.cat([x, -x], -1).relu()
    return torch.cat([rectified * rectified.roll(j, -1) for j in range(1, nu + 1)], -1)


def favor(
    x: Float[Tensor, "*batch dim"], directions: Float[Tensor, "feature dim"]
) -> Float[Tensor, "*batch feature"]:
    """Positive random features exp(ω·x − |x|²/2) / √m (Choromanski et al. 2021, lemma 1).

    E φ(q)·φ(k) = exp(q·k) for normal ω; scale q and k by dim^(-1/4) to stand for attention. In 32
    bits exp overflows, or every feature vanishes, where |x| is large: see `orthogonal_directions`.
    """
    exponent = x @ directions.mT - x.square().sum(-1, keepdim=True) / 2
    return exponent.exp() / directions.shape[0] ** 0.5


def orthogonal_directions(
    count: int, dim: int, seed: int, dtype: torch.dtype = torch.float64
) -> Float[Tensor, "feature dim"]:
    """Normal vectors, orthogonal within blocks of `dim`: this lowers the variance (section 3.2)."""
    generator = torch.Generator().manual_seed(seed)
    blocks = []
    for start in range(0, count, dim):
        square = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
        rotation, triangle = torch.linalg.qr(square)
        # without these signs the rotations would not be spread evenly
        rotation = rotation * triangle.diagonal().sign()
        blocks.append(rotation[: min(dim, count - start)])
    lengths = torch.randn(count, dim, generator=generator, dtype=torch.float64).norm(dim=1)
    return (torch.cat(blocks) * lengths[:, None]).to(dtype)


def delta_weights(
    queries: Float[Tensor, "*batch query feature"],
    keys: Float[Tensor, "*batch time feature"],
    strengths: Float[Tensor, "*batch time"],
) -> Float[Tensor, "*batch query time"]:
    """Weight of each value for a query that reads the delta rule's memory after the last write.

    Solving W_i = W_{i-1} + β_i (v_i − W_{i-1} φ_i) ⊗ φ_i for the written differences u gives
    (1 + β tril(φφᵀ, −1)) u = β v, so that W φ(q) = Σ_i v_i weights_i without a memory in between.
    Features are divided by their sum; where that is zero, the weights are not numbers.
    """
    queries, keys = (each / each.sum(-1, keepdim=True) for each in (queries, keys))
    known = (strengths[..., None] * (keys @ keys.mT)).tril(-1)
    system = known + torch.eye(keys.shape[-2], dtype=keys.dtype, device=keys.device)
    # (system⁻¹ β)ᵀ (φ(k)·φ(q)) for each query, from the right end of the sequence to the left
    read = torch.linalg.solve_triangular(system.mT, keys @ queries.mT, upper=True)
    return (strengths[..., None] * read).mT
