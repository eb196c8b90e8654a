"""The query-key products of a layer's heads, alone and together, and how many dimensions they use.

Cordonnier et al. (2020, section 3): the scores of head h are X W_Q^h W_K^hᵀ Xᵀ. Of one head that
product has rank d_k at most. Of all heads together, W_Q W_Kᵀ = Σ_h W_Q^h W_K^hᵀ can have the rank
of the model's width, and needs less where heads share directions. Biases are left out: the key's
vanishes under the softmax, the query's only says how much each key is liked by everybody.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def spectra(
    queries: Float[Tensor, "head model dim"], keys: Float[Tensor, "head model dim"]
) -> tuple[Float[Tensor, "head dim"], Float[Tensor, " rank"]]:
    """Singular values, largest first, of each head's product and of all heads' together.

    In float64; `rank` is the smaller of the model's width and that of all heads.
    """
    queries, keys = queries.double(), keys.double()
    alone = _of_product(queries, keys)
    together = _of_product(_beside(queries), _beside(keys))
    return alone, together


def _of_product(left: Tensor, right: Tensor) -> Tensor:
    """Of left · rightᵀ, by way of two QR decompositions: the small factors have them all."""
    (_, one), (_, other) = torch.linalg.qr(left), torch.linalg.qr(right)
    return torch.linalg.svdvals(one @ other.mT)


def _beside(weights: Tensor) -> Tensor:
    return weights.permute(1, 0, 2).flatten(1)


def energy(values: Float[Tensor, "*batch rank"]) -> Float[Tensor, "*batch rank"]:
    """Cumulative share of the squared singular values, the largest first."""
    squared = values.square()
    return squared.cumsum(-1) / squared.sum(-1, keepdim=True)


def dimensions(values: Float[Tensor, "*batch rank"], share: float = 0.9) -> Float[Tensor, "*batch"]:
    """Number of the largest values that hold this share of the energy."""
    return (energy(values) < share - 1e-12).sum(-1).double() + 1
