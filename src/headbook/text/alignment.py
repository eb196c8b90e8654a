"""Words to the subword pieces a model reads, by their characters."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.text.trees import RELATIONS, Tree

NO_WORD = -1

Span = tuple[int, int]
"""Half-open range of characters."""


@dataclass(frozen=True)
class AlignedTree:
    """A tree's four relations and the pieces of its words.

    `pieces` holds each piece's word, NO_WORD (-1) for those of no word and for special tokens: it
    is as long as the encoded source. `arcs` has rows (index in RELATIONS, dependent word, head
    word), without those of a word that has no piece.
    `tags` are the words' universal parts of speech, empty where the tree has none.
    """

    pieces: Int[Tensor, " piece"]
    arcs: Int[Tensor, "arc 3"]
    tags: tuple[str, ...] = ()


def align_all(tree: Tree, all_spans: Sequence[Span | None]) -> AlignedTree:
    """The tree with its words' pieces: each piece belongs to the word of its first character.

    `all_spans` has one entry per piece the model reads: its characters in `tree.text`, None for a
    special token. A piece that crosses a word's end (`don` and `'t`, where the words are `do` and
    `n't`) belongs to the word it begins in.
    """
    spans = [span for span in all_spans if span is not None]
    words = iter(_words_of(tree, spans))
    pieces = [NO_WORD if span is None else next(words) for span in all_spans]
    reached = set(pieces)
    arcs = [
        (RELATIONS.index(arc.relation), arc.dependent, arc.head)
        for arc in tree.arcs()
        if arc.relation in RELATIONS and {arc.dependent, arc.head} <= reached
    ]
    return AlignedTree(
        pieces=torch.tensor(pieces, dtype=torch.long),
        arcs=torch.tensor(arcs, dtype=torch.long).reshape(-1, 3),
        tags=tree.tags,
    )


def _words_of(tree: Tree, spans: Sequence[Span]) -> list[int]:
    """The word index of each piece."""
    said = [at for at, (start, end) in enumerate(tree.words) if end > start]
    starts = [tree.words[at][0] for at in said]
    found = []
    for first, _ in spans:
        before = bisect_right(starts, first) - 1
        inside = before >= 0 and first < tree.words[said[before]][1]
        found.append(said[before] if inside else NO_WORD)
    return found


def visible(gap: str) -> bool:
    """Whether more was left out than spaces, unprintable marks and signs set on a letter.

    A tokeniser that composes letters (NFC) covers the letter of `e` + accent, not the accent; one
    that strips accents takes vowel signs of Hindi and Thai, and the emoji sign U+FE0F, for such.
    """
    return any(
        not letter.isspace() and letter.isprintable() and not category(letter).startswith("M")
        for letter in gap
    )
