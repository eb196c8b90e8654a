"""Nested lists as texts, whose first token, the outermost operator, asks for their value."""

from functools import cache

from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import one_hot

from headbook.corpora.small_tasks import NAMES, OPERATORS, expressions
from headbook.text.batches import PAD

LONGEST, VALUES = 32, 10
VOCABULARY = PAD + 1 + len(NAMES)
SEED = 48
"""Draws the texts, the same ones for every network."""


@cache
def nested_lists(count: int) -> tuple[Int[Tensor, "text token"], Int[Tensor, " text"]]:
    """Different texts of 16 to 32 tokens, padded on the right, and the digits they come to.

    Operators as in ListOps (Nangia and Bowman 2018), at most two inside each other.
    """
    ids, values = expressions(count, range(16, LONGEST + 1), 5, SEED)
    return ids + PAD + 1, values


def guessed(texts: Tensor, values: Tensor, others: Tensor) -> Int[Tensor, " other"]:
    """Of each other text the most frequent value of those with its outermost operator."""
    own, asked = (each[:, 0] - PAD - 1 for each in (texts, others))
    return (one_hot(own, len(OPERATORS)).T @ one_hot(values, VALUES)).argmax(1)[asked]
