"""Pairs of key and value to be recalled: the two settings of Schlag et al. 2021, section 6.1."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor


class Recall(NamedTuple):
    """Sequences of keys with a value each, and where every key stands last.

    Keys and values are numbers below `last.shape[1]`; `last` is -1 for a key that does not occur.
    """

    keys: Int[Tensor, "batch time"]
    values: Int[Tensor, "batch time"]
    last: Int[Tensor, "batch key"]

    def wanted(self, queries: Int[Tensor, "batch query"]) -> Int[Tensor, "batch query"]:
        """The value that was written last under each queried key, which has to occur."""
        return self.values.gather(1, self.last.gather(1, queries))


def each_once(count: int, batch: int, generator: torch.Generator) -> Recall:
    """Setting 1: all keys and all values once, in random order and pairing."""
    keys, values = (torch.rand(batch, count, generator=generator).argsort(1) for _ in range(2))
    return Recall(keys, values, keys.argsort(1))


def repeated(count: int, length: int, batch: int, generator: torch.Generator) -> Recall:
    """Setting 2: keys and values drawn with replacement, so that some keys are written again."""
    keys, values = (torch.randint(count, (batch, length), generator=generator) for _ in range(2))
    places = torch.arange(length).expand(batch, -1)
    never = torch.full((batch, count), -1)
    return Recall(keys, values, never.scatter_reduce(1, keys, places, "amax"))
