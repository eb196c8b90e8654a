"""From scores to roles: a head may have several, and every score stays beside its threshold."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.positional import Place, at_place, place_of
from headbook.trees import RELATION_DIRECTIONS


class Role(StrEnum):
    """Role of a head."""

    POSITIONAL = "positional"
    """It looks at a neighbour, to the left or to the right."""
    SYNTACTIC = "syntactic"
    RARE = "rare"


DRAWING_ORDER = (Role.POSITIONAL, Role.SYNTACTIC, Role.RARE)
"""Order of roles in the paper's legend: the first colours a head that has several."""


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of scores, as shares of 1."""

    positional: float = 0.90
    """Voita et al. 2019, section 5.1: at least 90 % of the time; of one neighbour, -1 or +1."""
    syntactic_margin: float = 0.10
    """Section 5.2: 10 % above the positional baseline; that these are percentage points is ours."""
    rare: float = 0.50
    """Ours, of one of the two rarest tokens: the paper has no threshold, but reports over 50 %."""


@dataclass(frozen=True)
class HeadRole:
    """One role of one head, or a candidate for it: it is held when the score reaches the threshold.

    `detail` is the offset ("-1"), the relation and direction ("nsubj head_to_dependent") or
    "one of two rarest". Layer and head count from zero.
    """

    layer: int
    head: int
    role: Role
    detail: str
    score: float
    threshold: float

    @property
    def held(self) -> bool:
        """False where either number is NaN."""
        return self.score >= self.threshold


def candidates(
    positional: Float[Tensor, "layer head offset"],
    offsets: Int[Tensor, " offset"],
    syntactic: Float[Tensor, "layer head column"],
    baseline: Float[Tensor, " column"],
    rare: Float[Tensor, "layer head 2"],
    thresholds: Thresholds = Thresholds(),
) -> list[HeadRole]:
    """Every role of every head with its score and threshold, held or not, by layer and head.

    Of the offsets only those of the neighbours are candidates: looking at the own token, or at one
    farther away, is no role.
    """
    relations = [" ".join(pair) for pair in RELATION_DIRECTIONS]
    marks = [accuracy + thresholds.syntactic_margin for accuracy in baseline.tolist()]
    found = []
    for layer, head in _heads(positional):
        every = zip(offsets.tolist(), positional[layer, head].tolist(), strict=True)
        shares = [(at, share) for at, share in every if place_of(at) is Place.NEIGHBOUR]
        accuracies = zip(relations, syntactic[layer, head].tolist(), marks, strict=True)
        scored = [
            *((Role.POSITIONAL, f"{at:+d}", share, thresholds.positional) for at, share in shares),
            *((Role.SYNTACTIC, name, score, mark) for name, score, mark in accuracies),
            (Role.RARE, "one of two rarest", float(rare[layer, head, 1]), thresholds.rare),
        ]
        found += [HeadRole(layer, head, *each) for each in scored]
    return found


def roles(
    positional: Float[Tensor, "layer head offset"],
    offsets: Int[Tensor, " offset"],
    syntactic: Float[Tensor, "layer head column"],
    baseline: Float[Tensor, " column"],
    rare: Float[Tensor, "layer head 2"],
    thresholds: Thresholds = Thresholds(),
) -> list[HeadRole]:
    """The candidates that are held; a head may be in it several times, or not at all."""
    every = candidates(positional, offsets, syntactic, baseline, rare, thresholds)
    return [candidate for candidate in every if candidate.held]


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


def _heads(scores: Float[Tensor, "layer head *rest"]) -> Iterator[tuple[int, int]]:
    layers, heads = scores.shape[:2]
    return ((layer, head) for layer in range(layers) for head in range(heads))
