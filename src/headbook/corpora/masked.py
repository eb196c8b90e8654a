"""Masking: sentences with some tokens hidden, and what stood there (Devlin et al. 2019)."""

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headbook.text.batches import EOS, PAD, UNK, EncodedPair

SELECTED = 0.15
"""Of a sentence's tokens, but one at least: those that are to be predicted."""


def masked_copies(
    encoded: Sequence[Sequence[int]],
    vocabulary: int,
    copies: int,
    seed: int,
    hidden: float = 0.8,
    random: float = 0.1,
    among: Sequence[int] | None = None,
) -> list[EncodedPair]:
    """Every sentence so many times, each time with other tokens masked, as BERT prepares its text.

    A pair is the masked sentence and, of the same length, the tokens to be predicted with PAD
    everywhere else. Of these a share is `hidden` behind the mask, a share becomes a `random` token,
    `among` those given or any but a reserved one, and the others stay. EOS is never selected; a
    sentence without any other token is left out. The same seed gives the same pairs.
    """
    sentences = [row for row in encoded if len(row) > 1]
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([len(row) for row in sentences])
    tokens = torch.tensor([identity for row in sentences for identity in row], dtype=torch.long)
    ordinary = torch.tensor(among or range(UNK + 1, vocabulary))
    pairs: list[EncodedPair] = []
    for _ in range(copies if sentences else 0):
        selected = _selected(tokens, lengths, generator)
        chance = torch.rand(len(tokens), generator=generator)
        other = ordinary[torch.randint(len(ordinary), (len(tokens),), generator=generator)]
        shown = tokens.where(~selected | (chance >= hidden + random), other)
        shown = shown.where(~selected | (chance >= hidden), torch.tensor(vocabulary))
        wanted = tokens.where(selected, torch.tensor(PAD))
        rows = [each.split(lengths.tolist()) for each in (shown, wanted)]
        pairs += [(one.tolist(), two.tolist()) for one, two in zip(*rows, strict=True)]
    return pairs


def _selected(
    tokens: Int[Tensor, " token"], lengths: Int[Tensor, " sentence"], generator: torch.Generator
) -> Bool[Tensor, " token"]:
    """Exactly SELECTED of each sentence's tokens, rounded, and one at least."""
    sentence = torch.arange(len(lengths)).repeat_interleave(lengths)
    # EOS comes last in its sentence's order, and is never reached: no share is so large.
    order = torch.rand(len(tokens), dtype=torch.float64, generator=generator) + (tokens == EOS)
    rank = pd.Series(order.numpy()).groupby(sentence.numpy()).rank(method="first")
    wanted = (SELECTED * (lengths - 1)).round().clamp(min=1)
    return torch.tensor(rank.to_numpy()) <= wanted[sentence]
