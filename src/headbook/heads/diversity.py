"""Diversity of a layer's heads: how alike what they look at, read and add is, batch by batch.

Vectors are `[batch, head, token, dim]` and maps `[batch, head, query, key]`, as they are recorded;
tokens that do not count are left out whatever stands there, and sums are in float64. Pairs of heads
are `[…, head, head]`.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.heads.tokens import counted_keys, counted_queries
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind

Vectors = Float[Tensor, "batch head token dim"]
Maps = Float[Tensor, "batch head query key"]
Tokens = Bool[Tensor, "batch token"]
Pairs = Float[Tensor, "*shape head head"]
EPSILON = 1e-9


def tokens_of(batch: Batch, kind: Kind, point: Point) -> Tokens:
    """The tokens whose queries, keys, values or contexts count: all real ones, EOS among them."""
    if point in (Point.KEYS, Point.VALUES):
        return counted_keys(batch, kind, boundary=True)
    return counted_queries(batch, kind, boundary=True)


def counted_maps(maps: Maps, batch: Batch, kind: Kind) -> Maps:
    """The weights, 0 wherever query or key does not count.

    Which key a query may see is for the model's mask to say: the X-raying article's decoder looks
    at the keys that a causal one must not see, and its maps would be empty here.
    """
    keys = counted_keys(batch, kind, boundary=True)[:, None, :]
    seen = keys & counted_queries(batch, kind, boundary=True)[:, :, None]
    return maps.masked_fill(~seen[:, None], 0.0).double()


def products(vectors: Vectors, tokens: Tokens) -> Float[Tensor, "head head dim dim"]:
    """X_iᵀ X_j of every two heads, with X_i [token, dim] over all tokens that count."""
    each = vectors.movedim(1, 0)[:, tokens].double()
    return torch.einsum("hnd,gne->hgde", each, each)


def normalised(pairs: Pairs) -> Pairs:
    """p_ij / √(p_ii p_jj), and 0 for a head that has nothing.

    Dropout may leave a head nothing where few tokens are seen. The root is of 1 there: at 0 its
    gradient would be NaN, and a training would stop.
    """
    own = pairs.diagonal(dim1=-2, dim2=-1)
    own = torch.where(own > 0, own, 1.0)
    return pairs / (own[..., :, None] * own[..., None, :]).sqrt()


def alignment(found: Float[Tensor, "*layer head head dim dim"]) -> Pairs:
    """‖X_iᵀ X_j‖_F / √(‖X_iᵀ X_i‖_F ‖X_jᵀ X_j‖_F) of `products`: 1 on the diagonal.

    Between 0, where no direction is shared, and 1; unchanged when all vectors are multiplied by a
    constant, or turned by a rotation of the head.
    """
    return normalised(torch.linalg.matrix_norm(found))


def cosines(vectors: Vectors, tokens: Tokens) -> Float[Tensor, "head head"]:
    """Cosines of two heads' vectors at the same token, summed over all tokens that count.

    Scale-free; 1 a token on the diagonal, and 0 where a vector is zero.
    """
    units = unit(vectors.transpose(1, 2)[tokens].double())  # [token, head, dim]
    return (units @ units.mT).sum(0)


def overlaps(maps: Maps) -> Float[Tensor, "batch head head"]:
    """Σ_q Σ_k a_i a_j: 1 a query for two heads that point at one key (Li et al. 2018)."""
    return torch.einsum("bhqk,bgqk->bhg", maps, maps)


def sentence_means(contexts: Vectors, tokens: Tokens) -> Float[Tensor, "batch head dim"]:
    """Each head's mean context over a sentence's tokens."""
    counted = tokens[:, None, :, None]
    return contexts.masked_fill(~counted, 0.0).double().sum(2) / counted.sum(2)


def unit(vectors: Float[Tensor, "*shape dim"]) -> Float[Tensor, "*shape dim"]:
    """The vectors at length 1. A zero vector has no direction: it stays, and so has no gradient."""
    zero = (vectors == 0).all(-1, keepdim=True)
    return torch.nn.functional.normalize(vectors.masked_fill(zero, 0.0), dim=-1)


def variance(maps: Maps, tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Σ_k Var_q(a_qk) of each sentence and head, and the most that it could be.

    With the same mean row that is 1 - Σ_k mean_q(a_qk)²: where each query points at one key.
    """
    queries = tokens.sum(1).double()[:, None]
    of_mean = (maps.sum(2) / queries[..., None]).square().sum(-1)
    return maps.square().sum((2, 3)) / queries - of_mean, 1 - of_mean


def mean_of_pairs(pairs: Pairs) -> Float[Tensor, "*shape"]:
    """The mean over i ≠ j, without NaN; NaN for a single head."""
    others = ~torch.eye(pairs.shape[-1], dtype=torch.bool, device=pairs.device)
    return pairs[..., others].nanmean(-1)


def without_diagonal(pairs: Pairs) -> Pairs:
    """The same with 0 on the diagonal."""
    return pairs - torch.diag_embed(pairs.diagonal(dim1=-2, dim2=-1))
