"""From scores to roles: a head may have several."""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.heads.positional import Place, at_place


class Role(StrEnum):
    """Role of a head."""

    POSITIONAL = "positional"
    """It looks at a neighbour, to the left or to the right."""
    SYNTACTIC = "syntactic"
    RARE = "rare"


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of scores, as shares of 1."""

    positional: float = 0.90
    """Voita et al. 2019, section 5.1: at least 90 % of the time; of one neighbour, -1 or +1."""
    syntactic_margin: float = 0.10
    """Section 5.2: 10 % above the positional baseline; that these are percentage points is ours."""
    rare: float = 0.50
    """Ours, of one of the two rarest tokens: the paper has no threshold, but reports over 50 %."""


def held_roles(
    positional: Float[Tensor, "replicate layer head offset"],
    syntactic: Float[Tensor, "replicate layer head column"],
    offsets: Float[Tensor, "replicate distance column"],
    rare: Float[Tensor, "replicate layer head 2"],
    thresholds: Thresholds = Thresholds(),
) -> dict[Role, Bool[Tensor, "replicate layer head"]]:
    """Heads with each role, in every replicate; `offsets` are shares of fixed offsets."""
    baseline = offsets.nan_to_num(-1).amax(1)[:, None, None]
    margins = (syntactic - baseline).nan_to_num(nan=-torch.inf)
    neighbours = at_place(positional, Place.NEIGHBOUR)
    return {
        Role.POSITIONAL: (neighbours >= thresholds.positional).any(-1),
        Role.SYNTACTIC: (margins >= thresholds.syntactic_margin).any(-1),
        Role.RARE: rare[..., 1] >= thresholds.rare,
    }
