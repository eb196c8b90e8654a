"""Random orders of a model's heads, and the set that scores are measured on."""

from headbook.artefacts.model import Heads
from headbook.pruning.ranking import random_order
from headbook.runs.seeds import derived

SCORED_ON = "valid"
"""Scores of heads are measured on this set; the work had older test sets."""


def random_orders(heads: Heads, number: int) -> list[Heads]:
    """So many random orders of these heads, the same for every model of this shape."""
    return [random_order(heads, derived(each, "order of pruning")) for each in range(number)]
