"""Hard Concrete gates: a number in [0, 1] with mass at both ends, and gradients in between."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.types import UserError

SMALLEST = 1e-6
"""Uniform noise is drawn from (10⁻⁶, 1 - 10⁻⁶), as in the paper's code: its logarithm is finite."""


@dataclass(frozen=True)
class Constants:
    """Temperature β and the interval (γ, ζ) to which a Concrete variable is stretched."""

    beta: float
    gamma: float = -0.1
    zeta: float = 1.1

    @property
    def shift(self) -> float:
        """β log(-γ/ζ): by how much log α must exceed it for a gate to be open half of the time."""
        return float(self.beta * torch.tensor(-self.gamma / self.zeta).log())


CONSTANTS = {"figure": Constants(0.5), "code": Constants(0.33)}
"""The paper states none: those that reproduce the probabilities of its Figure 6, and its code's."""


class HardConcrete(nn.Module):
    """One gate a head, the same for every input (Voita et al. 2019, section 6.1).

    In training `forward` draws a sample for the whole batch, or with `rows` one for each sentence,
    else it gives the decision. UserError where a log α is no number.
    """

    def __init__(self, log_alpha: Float[Tensor, " head"], constants: Constants) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(log_alpha)
        self.constants = constants
        self.rows: int | None = None

    def forward(self) -> Float[Tensor, "*rows head"]:
        if not self.training:
            return self.decided()
        shape = () if self.rows is None else (self.rows,)
        drawn = self.log_alpha.new_empty(*shape, *self.log_alpha.shape)
        return self.at(drawn.uniform_(SMALLEST, 1 - SMALLEST))

    def at(self, uniform: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return gate_at(self.log_alpha, uniform, self.constants)

    def decided(self) -> Float[Tensor, " head"]:
        """The gate at test time: 1 where P(1) > P(0), else 0 (section 6.1)."""
        if self.log_alpha.isnan().any():
            raise UserError("a gate is NaN; lower the gates' learning rate or the penalty")
        return (self.log_alpha > 0).to(self.log_alpha)

    def closed_probability(self) -> Float[Tensor, " head"]:
        """P(g = 0) = σ(β log(-γ/ζ) - log α)."""
        return (self.constants.shift - self.log_alpha).sigmoid()

    def open_probability(self) -> Float[Tensor, " head"]:
        """P(g ≠ 0), whose sum over the heads is the expected L0 norm."""
        return open_probability(self.log_alpha, self.constants)

    def one_probability(self) -> Float[Tensor, " head"]:
        """P(g = 1) = σ(log α - β log((1-γ)/(ζ-1)))."""
        own = self.constants
        upper = self.log_alpha.new_tensor((1 - own.gamma) / (own.zeta - 1)).log()
        return (self.log_alpha - own.beta * upper).sigmoid()

    def saturated(self) -> Float[Tensor, " head"]:
        """1 where the gate of the paper's code, clip(1.2 σ(log α) - 0.1, 0, 1), is 0 or 1."""
        clipped = _stretched(self.log_alpha.sigmoid(), self.constants)
        return ((clipped == 0) | (clipped == 1)).to(self.log_alpha)


def gate_at(
    log_alpha: Float[Tensor, "*#shape"], uniform: Float[Tensor, "*#shape"], constants: Constants
) -> Float[Tensor, "*shape"]:
    """clip(σ((log u - log(1-u) + log α) / β) · (ζ - γ) + γ, 0, 1)."""
    noise = uniform.log() - (-uniform).log1p()
    return _stretched(((noise + log_alpha) / constants.beta).sigmoid(), constants)


def open_probability(
    log_alpha: Float[Tensor, "*shape"], constants: Constants
) -> Float[Tensor, "*shape"]:
    """P(g ≠ 0) = σ(log α - β log(-γ/ζ))."""
    return (log_alpha - constants.shift).sigmoid()


def _stretched(concrete: Tensor, constants: Constants) -> Tensor:
    return (concrete * (constants.zeta - constants.gamma) + constants.gamma).clamp(0, 1)
