"""Sampled occurrences of tokens: as many of each, drawn at random."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headbook.text.batches import UNK


def frequent(tokens: Int[Tensor, " token"], count: int) -> Int[Tensor, " kind"]:
    """The `count` most frequent ids of a text, the most frequent first; the reserved ids are none.

    Fewer where the text has fewer kinds of tokens.
    """
    counts = torch.bincount(tokens, minlength=UNK + 2)
    counts[: UNK + 1] = 0
    order = counts.argsort(descending=True, stable=True)
    return order[: min(count, int((counts > 0).sum()))]


def occurrences(
    tokens: Int[Tensor, " token"],
    among: Int[Tensor, " kind"],
    most: int,
    seed: int,
    allowed: Bool[Tensor, " token"] | None = None,
) -> Int[Tensor, " chosen"]:
    """Places of these tokens in a text, in order: at most so many of each, drawn by the seed.

    Only places that are `allowed`; all where None.
    """
    generator = torch.Generator().manual_seed(seed)
    places = torch.randperm(len(tokens), generator=generator)
    usable = torch.isin(tokens[places], among)
    if allowed is not None:
        usable &= allowed[places]
    places = places[usable]
    order = tokens[places].argsort(stable=True)
    kinds = tokens[places][order].contiguous()
    rank = torch.arange(len(kinds)) - torch.searchsorted(kinds, kinds)
    return places[order][rank < most].sort().values
