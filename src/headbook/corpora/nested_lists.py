"""Nested lists as texts, whose first token, the outermost operator, asks for their value."""

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.corpora.small_tasks import NAMES, expression, value
from headbook.text.batches import PAD

VALUES, OPERATORS = 10, 4
VOCABULARY = PAD + 1 + len(NAMES)
ARGUMENTS = (2, 3, 4, 5)
SEED = 48
"""Draws the texts, the same ones for every network."""
SHORTEST = 16


@dataclass(frozen=True)
class NestedLists:
    """Different expressions, padded on the right, and the digit that each one comes to."""

    texts: Int[Tensor, "text token"]
    values: Int[Tensor, " text"]

    def __len__(self) -> int:
        return len(self.texts)

    def guessed(self, others: "NestedLists") -> float:
        """Accuracy on others of the most frequent value of each outermost operator here."""
        own, asked = self.texts[:, 0] - PAD - 1, others.texts[:, 0] - PAD - 1
        counts = torch.zeros(OPERATORS, VALUES, dtype=torch.long)
        counts.index_put_((own, self.values), torch.tensor(1), accumulate=True)
        return float((counts.argmax(1)[asked] == others.values).double().mean())


@cache
def nested_lists(longest: int, trained: int, tested: int) -> tuple[NestedLists, NestedLists]:
    """Texts of SHORTEST to `longest` tokens to learn from and, without a common one, to be tested.

    Operators as in ListOps (Nangia and Bowman 2018), at most two inside each other.
    """
    generator = torch.Generator().manual_seed(SEED)
    found: dict[tuple[int, ...], int] = {}
    while len(found) < trained + tested:
        tokens = tuple(expression(generator, arguments=ARGUMENTS))
        if SHORTEST <= len(tokens) <= longest:
            found[tokens] = value(tokens)
    texts = torch.full((len(found), longest), PAD)
    for row, tokens in enumerate(found):
        texts[row, : len(tokens)] = torch.tensor(tokens) + PAD + 1
    values = torch.tensor(list(found.values()))
    known, new = slice(0, trained), slice(trained, None)
    return NestedLists(texts[known], values[known]), NestedLists(texts[new], values[new])
