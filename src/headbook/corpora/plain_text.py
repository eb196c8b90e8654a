"""Text to model a language on: lines of one language, and segments of one length made of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headbook.corpora.readers import ParallelCorpus, load
from headbook.text import download
from headbook.text.batches import PAD, EncodedPair
from headbook.text.files import text_lines
from headbook.text.registry import CorpusKind, registry
from headbook.types import UserError

NO_SOURCE = (PAD + 1,)
"""Empty source side of a segment: a model without an encoder does not look there."""


@dataclass(frozen=True)
class PlainText:
    """Lines that are not empty."""

    name: str
    train: tuple[str, ...]
    valid: tuple[str, ...]
    test: tuple[str, ...]


def load_text(name: str, limit: int | None = None) -> PlainText:
    """A text of the registry, or the English side of any corpus of pairs, a user's folder too.

    `limit` keeps the first `limit` training lines. UserError as from `readers.load`.
    """
    entry = registry().get(name)
    if entry is not None and entry.kind is CorpusKind.TEXT:
        files = download.locate(name)
        parts = [_lines(text_lines(files[f"{split}.txt"])) for split in ("train", "valid", "test")]
    else:
        parts = list(_english(load(name)))
    train, valid, test = parts
    return PlainText(name, train[:limit], valid, test)


def _english(corpus: ParallelCorpus) -> Iterable[tuple[str, ...]]:
    test = next(iter(corpus.tests.values()))
    return (_lines(pairs.source) for pairs in (corpus.train, corpus.valid, test))


def _lines(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(filter(None, (line.strip() for line in lines)))


def cut(encoded: Iterable[Sequence[int]], context: int) -> list[EncodedPair]:
    """All lines as one text, cut into segments of `context` tokens; the remainder is dropped.

    UserError for a text shorter than one segment.
    """
    whole = [identity for line in encoded for identity in line]
    _require_one(len(whole), context)
    ends = range(context, len(whole) + 1, context)
    return [(NO_SOURCE, whole[end - context : end]) for end in ends]


def filled(encoded: Iterable[Sequence[int]], context: int) -> list[EncodedPair]:
    """Segments of whole lines, padded to `context` where the next line has no room.

    A line longer than `context` is cut. UserError for a text shorter than one segment.
    """
    lines = list(encoded)
    _require_one(sum(map(len, lines)), context)
    segments: list[list[int]] = [[]]
    for line in lines:
        for first in range(0, len(line), context):
            piece = line[first : first + context]
            if len(segments[-1]) + len(piece) > context:
                segments.append([])
            segments[-1].extend(piece)
    return [(NO_SOURCE, [*each, *[PAD] * (context - len(each))]) for each in segments]


def _require_one(tokens: int, context: int) -> None:
    if not 2 <= context <= tokens:
        raise UserError(
            f"a text of {tokens} tokens has no segment of {context}: "
            "give more text, or a context between 2 and its length"
        )
