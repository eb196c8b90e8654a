"""Orders in which heads are pruned that rest on nothing."""

from collections.abc import Iterable

import torch

from headbook.types import HeadId


def random_order(heads: Iterable[HeadId], seed: int) -> tuple[HeadId, ...]:
    """The heads in random order: the same for the same seed, however they were given."""
    known = sorted(set(heads))
    shuffled = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))
    return tuple(known[index] for index in shuffled.tolist())
