"""Attention weighted by norms: how much a head takes from each token, not only where it looks.

Kobayashi et al. 2020, section 3: a head adds Σ_j α_ij f(x_j) with f(x) = (x W_V + b_V) W_O. A
large weight α_ij adds little where f(x_j) is short, as at special tokens; ‖α_ij f(x_j)‖ is the
length of the vector that is added. Directions are left out, so vectors that cancel are not seen.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.outputs import Parts
from headbook.heads.recording import Recording, once
from headbook.models.capture import Point
from headbook.types import Kind, UserError


def value_norms(
    values: Float[Tensor, "batch head key dim"], parts: Float[Tensor, "head dim model"]
) -> Float[Tensor, "batch head key"]:
    """‖f(x_j)‖ = ‖v_j W_O^h‖ of every head and key; the bias of W_O belongs to no head.

    From the product W_O^h W_O^hᵀ, which is as wide as a head, so the vectors need no memory.
    """
    gram = parts @ parts.transpose(-2, -1)
    squared = torch.einsum("bhkd,hde,bhke->bhk", values, gram.to(values), values)
    return squared.clamp(min=0).sqrt()


def norm_weights(
    tape: Recording, kind: Kind, parts: Parts
) -> list[Float[Tensor, "batch head query key"]]:
    """‖α_ij f(x_j)‖ of every layer, in the units of the model's states.

    The tape holds WEIGHTS and VALUES; `parts` are `output_parts` of the same model and kind.
    UserError for an architecture whose values are out of reach.
    """
    layers = zip(tape[kind, Point.WEIGHTS], _values(tape, kind), parts, strict=True)
    return [weights * value_norms(value, part)[:, :, None] for weights, value, part in layers]


def _values(tape: Recording, kind: Kind) -> list[Tensor]:
    try:
        return tape[kind, Point.VALUES]
    except KeyError:
        raise UserError(
            f"the values of {kind} attention cannot be recorded in this architecture, so weights "
            "cannot be multiplied by norms; use weights alone"
        ) from None


class NormShares:
    """A recording whose weights are norms as shares: ‖α_ij f(x_j)‖ / Σ_k ‖α_ik f(x_k)‖.

    Every measure of weights reads these as it reads weights, `special(NormShares(tape, parts),
    batch)`, from a tape of WEIGHTS and VALUES; rows sum to one, or to zero where every norm is.
    """

    def __init__(self, tape: Recording, parts: Mapping[Kind, Parts]) -> None:
        self._tape, self._parts = tape, parts

    def __getitem__(self, key: tuple[Kind, Point]) -> list[Tensor]:
        kind, point = key
        if point is not Point.WEIGHTS:
            return self._tape[key]
        return once(self._tape, (NormShares, kind, id(self._parts)), lambda: self._shares(kind))

    def _shares(self, kind: Kind) -> list[Tensor]:
        norms = norm_weights(self._tape, kind, self._parts[kind])
        return [each / each.sum(-1, keepdim=True).clamp(min=TINY) for each in norms]


TINY = 1e-30
