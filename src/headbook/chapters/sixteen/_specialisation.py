"""Scores of a model's most specialised head: chosen on one half, scored on the other.

Replicates are [1 + replicate]: the number as it is and then its bootstrap over sentences.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.artefacts.heads import Measured
from headbook.heads.positional import REACH, Place, at_place
from headbook.heads.roles import Thresholds
from headbook.statistics import interval

Replicates = Float[Tensor, " replicate"]
BLEU = "bleu"
"""The column of greedy BLEU on the first test sentences."""
CONFIDENCE = "confidence"
"""The column of `most_confident`, beside those of Score."""
"""A column of published tables alone: the largest share at one offset, the own token's among them.

It was measured before the places were apart, and these tables do not tell the offset.
"""


class Score(StrEnum):
    """Score of the most specialised encoder head."""

    NEIGHBOUR = "neighbour"
    """The share of tokens for which it points at one neighbour, to the left or to the right."""
    OWN = "own"
    """The share of tokens that it points at from themselves; no role."""
    OTHER = "other"
    """The share of tokens for which it points at one offset farther away; no role."""
    MARGIN = "syntactic"
    """Its accuracy on one relation and direction minus the offset baseline's."""
    RARE = "rare"
    """The share of tokens for which it points at one of the two rarest."""


ROLES = (Score.NEIGHBOUR, Score.MARGIN, Score.RARE)
"""The scores that make a role."""


def threshold(score: Score) -> float:
    """From where a head has the role; for one of ROLES."""
    of = Thresholds()
    return {
        Score.NEIGHBOUR: of.positional,
        Score.MARGIN: of.syntactic_margin,
        Score.RARE: of.rare,
    }[score]


@dataclass(frozen=True)
class Sharpest:
    """The most specialised head: its score where it was chosen, and where it is scored."""

    layer: int  # from zero
    head: int
    cell: int  # which of the place's offsets, of the relation-directions
    chosen: float
    replicates: Replicates

    @property
    def value(self) -> float:
        return float(self.replicates[0])

    @property
    def ends(self) -> tuple[float, float]:
        """The 95 % interval over sentences."""
        return interval(self.replicates)[1:]


def sharpest(sums: Measured, score: Score) -> Sharpest:
    """The head with the largest score on the first half of the sentences."""
    return _sharpest(*_halves(sums, score))


def offset_of(found: Sharpest, place: Place, reach: int = REACH) -> int:
    """The offset that the most specialised head of a place points at."""
    return place.offsets(reach)[found.cell]


def most_confident(measured: Measured) -> Sharpest:
    """The head with the largest confidence, which is no role: it may look anywhere."""
    sums = measured["confidence/encoder"]
    return _sharpest(sums.ratio(half=0), sums.replicates(half=1))


def _sharpest(
    chosen: Float[Tensor, "layer head *cell"], scored: Float[Tensor, "replicate layer head *cell"]
) -> Sharpest:
    heads, cells = chosen.shape[1], chosen[0, 0].numel()
    index = int(chosen.flatten().nan_to_num(-torch.inf).argmax())
    layer, head = divmod(index // cells, heads)
    best = float(chosen.flatten()[index])
    return Sharpest(layer, head, index % cells, best, scored.flatten(1)[:, index])


def _halves(
    sums: Measured, score: Score
) -> tuple[Float[Tensor, "layer head cell"], Float[Tensor, "replicate layer head cell"]]:
    """The scores on the first half, and their replicates on the other."""
    if score in list(Place):
        place, measured = Place(score), sums["positional/encoder"]
        return at_place(measured.ratio(half=0), place), at_place(measured.replicates(1), place)
    if score is Score.RARE:
        measured = sums["rare"]
        return measured.ratio(half=0)[..., 1:], measured.replicates(half=1)[..., 1:]
    return _margins(sums)


def _margins(
    sums: Measured,
) -> tuple[Float[Tensor, "layer head 8"], Float[Tensor, "replicate layer head 8"]]:
    """Accuracies minus those of the most frequent offset, chosen on the first half, too."""
    accuracy, offsets = sums["syntactic"], sums["offsets"]
    shares = offsets.ratio(half=0).nan_to_num(-torch.inf)
    offset, relation = shares.argmax(0), torch.arange(shares.shape[1])
    baseline = offsets.replicates(half=1)[:, offset, relation]
    return (
        accuracy.ratio(half=0) - shares[offset, relation],
        accuracy.replicates(half=1) - baseline[:, None, None],
    )
