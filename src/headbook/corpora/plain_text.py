"""Text to model a language on: lines of one language, and segments of one length made of them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headbook.corpora.readers import load
from headbook.text import download
from headbook.text.batches import PAD, EncodedPair
from headbook.text.files import text_lines
from headbook.text.registry import CorpusKind, registry
from headbook.types import UserError

NO_SOURCE = (PAD + 1,)
"""Empty source side of a segment: a model without an encoder does not look there."""


class PlainText(NamedTuple):
    """Lines that are not empty."""

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
        parts = [text_lines(files[f"{split}.txt"]) for split in ("train", "valid", "test")]
    else:
        pairs = load(name)
        parts = [each.source for each in (pairs.train, pairs.valid, *pairs.tests.values())][:3]
    train, valid, test = (tuple(filter(None, map(str.strip, part))) for part in parts)
    return PlainText(train[:limit], valid, test)


def cut(encoded: Iterable[Sequence[int]], context: int) -> list[EncodedPair]:
    """All lines as one text, cut into segments of `context` tokens; the remainder is dropped."""
    whole = [identity for line in encoded for identity in line]
    _require_one(len(whole), context)
    ends = range(context, len(whole) + 1, context)
    return [(NO_SOURCE, whole[end - context : end]) for end in ends]


def filled(encoded: Iterable[Sequence[int]], context: int) -> list[EncodedPair]:
    """Segments of whole lines, longer ones cut, padded where the next line has no room."""
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
