"""Words to the subword pieces a model reads, by their characters."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from unicodedata import combining

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.trees import RELATIONS, Tree
from headbook.types import UserError

NO_WORD = -1

Span = tuple[int, int]
"""Half-open range of characters."""


@dataclass(frozen=True)
class AlignedTree:
    """A tree's four relations and the pieces of its words.

    `pieces` holds each piece's word, NO_WORD (-1) for those of no word and for special tokens: it
    is as long as the encoded source. `arcs` has rows (index in RELATIONS, dependent word, head
    word); `dropped` counts the arcs left out because a word of theirs has no piece.
    `tags` are the words' universal parts of speech, empty where the tree has none.
    """

    pieces: Int[Tensor, " piece"]
    arcs: Int[Tensor, "arc 3"]
    dropped: int
    tags: tuple[str, ...] = ()


def align(tree: Tree, spans: Sequence[Span]) -> AlignedTree:
    """`align_all` for our own subwords, whose `spans` leave out the EOS at the end."""
    return align_all(tree, [*spans, None])


def align_all(tree: Tree, all_spans: Sequence[Span | None]) -> AlignedTree:
    """Gives every piece to the word that holds its first character.

    `all_spans` has one entry per piece the model reads, None for a special token.

    So a piece that crosses a word's end (`don` and `'t`, where the words are `do` and
    `n't`) belongs to the word it begins in. Spans are the pieces' characters in `tree.text`. Raises
    UserError when they were cut from another text.
    """
    spans = [span for span in all_spans if span is not None]
    _check(tree.text, spans)
    words = iter(_words_of(tree, spans))
    pieces = [NO_WORD if span is None else next(words) for span in all_spans]
    reached = set(pieces)
    arcs = [
        (RELATIONS.index(arc.relation), arc.dependent, arc.head)
        for arc in tree.arcs()
        if arc.relation in RELATIONS
    ]
    kept = [arc for arc in arcs if arc[1] in reached and arc[2] in reached]
    return AlignedTree(
        pieces=torch.tensor(pieces, dtype=torch.long),
        arcs=torch.tensor(kept, dtype=torch.long).reshape(-1, 3),
        dropped=len(arcs) - len(kept),
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


def _check(text: str, spans: Sequence[Span]) -> None:
    """Pieces of this text stand in order, within it, and leave out nothing that can be seen."""
    if any(not 0 <= start <= end <= len(text) for start, end in spans):
        _fail(text, "reach beyond it")
    if any(a > b or c > d for (a, c), (b, d) in pairwise(spans)):
        _fail(text, "are out of order")
    if any(_visible(gap) for gap in _gaps(text, spans)):
        _fail(text, "leave part of it out")


def _gaps(text: str, spans: Sequence[Span]) -> Iterator[str]:
    """The stretches of text between the pieces."""
    edge = 0
    for start, end in spans:
        yield text[edge:start]
        edge = max(edge, end)
    yield text[edge:]


def _visible(gap: str) -> bool:
    """Whether more was left out than spaces, unprintable marks and accents set on a letter.

    A tokeniser that composes letters (NFC) covers the letter of `e` + accent, not the accent.
    """
    return any(
        not letter.isspace() and letter.isprintable() and not combining(letter) for letter in gap
    )


def _fail(text: str, what: str) -> None:
    raise UserError(f"the pieces given for {text[:60]!r} {what}; tokenise and parse the same text")
