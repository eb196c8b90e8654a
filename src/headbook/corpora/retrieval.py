"""Texts whose first or last token asks for a value that stands somewhere else."""

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.text.batches import PAD

KEYS = VALUES = NOISE = 8
"""Numbers of different keys, values and tokens that mean nothing."""
VOCABULARY = PAD + 1 + KEYS * VALUES + KEYS + NOISE
CHANCE = 1 / VALUES


def retrieval(
    length: int, pairs: int, count: int, generator: torch.Generator, last: bool
) -> tuple[Int[Tensor, "text token"], Int[Tensor, " text"], Int[Tensor, " text"]]:
    """Texts of noise with pairs of key and value, one token each; the first token asks.

    Beside the texts the value that is asked for, and how far from the question it stands.
    The logarithm of the distance is drawn alike from 1 to the end, other pairs stand anywhere. Keys
    of a text differ, values are drawn alone, so that the others say nothing about the value whose
    key is asked for. With `last` the text is turned round.
    """
    rows = torch.arange(count)[:, None]
    texts = torch.randint(NOISE, (count, length), generator=generator) + VOCABULARY - NOISE
    distances = (length ** torch.rand(count, generator=generator)).long().clamp(1, length - 1)
    order = torch.rand(count, length, generator=generator)
    order[rows[:, 0], distances], order[:, 0] = -1, 2
    places = order.argsort(1)[:, :pairs]
    keys = torch.rand(count, KEYS, generator=generator).argsort(1)[:, :pairs]
    values = torch.randint(VALUES, (count, pairs), generator=generator)
    texts[rows, places] = PAD + 1 + keys * VALUES + values
    texts[:, 0] = PAD + 1 + KEYS * VALUES + keys[:, 0]
    return texts.flip(1) if last else texts, values[:, 0], distances
