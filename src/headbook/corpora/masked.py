"""Masking: sentences with some tokens hidden, and what stood there (Devlin et al. 2019)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headbook.corpora.batches import EOS, PAD, UNK, EncodedPair

SELECTED = 0.15
"""Of a sentence's tokens, but one at least: those that are to be predicted."""


@dataclass(frozen=True)
class Masking:
    """Shares of the selected tokens that become the mask and a random token; the others stay."""

    hidden: float = 0.8
    random: float = 0.1
    among: tuple[int, ...] | None = None  # the random tokens; any but a reserved one where None


BERT = Masking()


def mask_id(vocabulary: int) -> int:
    """The first id after a vocabulary of that size."""
    return vocabulary


def masked_copies(
    encoded: Sequence[Sequence[int]],
    vocabulary: int,
    copies: int,
    seed: int,
    masking: Masking = BERT,
) -> list[EncodedPair]:
    """Every sentence so many times, each time with other tokens masked, as BERT prepares its text.

    A pair is the masked sentence and, of the same length, the tokens to be predicted with PAD
    everywhere else. EOS is never selected; a sentence without any other token is left out. The
    same seed gives the same pairs.
    """
    sentences = [row for row in encoded if len(row) > 1]
    generator = torch.Generator().manual_seed(seed)
    return [
        pair for _ in range(copies if sentences else 0)
        for pair in _masked(sentences, vocabulary, masking, generator)
    ]  # fmt: skip


def _masked(
    sentences: Sequence[Sequence[int]],
    vocabulary: int,
    masking: Masking,
    generator: torch.Generator,
) -> Iterator[EncodedPair]:
    lengths = torch.tensor([len(row) for row in sentences])
    tokens = torch.tensor([identity for row in sentences for identity in row])
    selected = _selected(tokens, lengths, generator)
    chance = torch.rand(len(tokens), generator=generator)
    kinds = torch.tensor(masking.among or range(UNK + 1, vocabulary))
    other = kinds[torch.randint(len(kinds), (len(tokens),), generator=generator)]
    shown = tokens.where(~selected | (chance >= masking.hidden + masking.random), other)
    shown = shown.where(~selected | (chance >= masking.hidden), torch.tensor(mask_id(vocabulary)))
    wanted = tokens.where(selected, torch.tensor(PAD))
    sizes = lengths.tolist()
    for one, two in zip(shown.split(sizes), wanted.split(sizes), strict=True):
        yield one.tolist(), two.tolist()


def _selected(
    tokens: Int[Tensor, " token"], lengths: Int[Tensor, " sentence"], generator: torch.Generator
) -> Bool[Tensor, " token"]:
    """Exactly SELECTED of each sentence's tokens, rounded, and one at least."""
    sentence = torch.arange(len(lengths)).repeat_interleave(lengths)
    # EOS comes last in its sentence's order, and is never reached: no share is so large.
    order = torch.rand(len(tokens), dtype=torch.float64, generator=generator) + (tokens == EOS)
    drawn = (2 * sentence + order).argsort(stable=True)
    first = lengths.cumsum(0) - lengths
    rank = torch.empty_like(tokens)
    rank[drawn] = torch.arange(len(tokens)) - first[sentence]
    wanted = (SELECTED * (lengths - 1)).round().clamp(min=1)
    return rank < wanted[sentence]
