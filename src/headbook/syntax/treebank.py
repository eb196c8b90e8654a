"""Gold trees from CoNLL-U files, the format of the Universal Dependencies treebanks."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from headbook.syntax.labels import normalised
from headbook.trees import ROOT, Tree
from headbook.types import UserError

COLUMNS = 10
TEXT = "# text = "


@dataclass(frozen=True)
class Row:
    """One line of ten columns and where it stands."""

    number: int
    columns: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.columns[0]

    @property
    def form(self) -> str:
        return self.columns[1]

    @property
    def is_range(self) -> bool:
        """A multiword token, such as 3-4 `don't`, which its words follow."""
        return "-" in self.id

    @property
    def is_empty_node(self) -> bool:
        """A word that is not said, such as 8.1, known to the enhanced graph only."""
        return "." in self.id


@dataclass
class Sentence:
    """The lines of one sentence, while the file is read."""

    path: Path
    text: str | None = None
    rows: list[Row] = field(default_factory=list)

    def fail(self, number: int, what: str) -> NoReturn:
        raise UserError(f"{self.path}, line {number}: {what}; is this a whole CoNLL-U file?")


def read_conllu(path: str | Path) -> list[Tree]:
    """Every sentence of a plain or gzipped CoNLL-U file, labels normalised, empty nodes left out.

    Words are located in `# text`. Words of a multiword token that do not spell it out (German
    `am` for `an dem`) leave the first of them the whole token, the others an empty span.
    Raises UserError with file and line when the file is malformed.
    """
    return [_tree(sentence) for sentence in _sentences(Path(path))]


def _lines(path: Path) -> Iterator[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="\n") as lines:
            yield from lines
    except FileNotFoundError:
        raise UserError(f"{path}: no such treebank; `headbook corpora` lists those known") from None
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}); fetch it again") from error


def _sentences(path: Path) -> Iterator[Sentence]:
    sentence = Sentence(path)
    for number, line in enumerate(_lines(path), start=1):
        line = line.rstrip("\r\n")
        if line.startswith(TEXT):
            sentence.text = line.removeprefix(TEXT)
        elif line and not line.startswith("#"):
            sentence.rows.append(_row(sentence, number, line))
        elif not line and sentence.rows:
            yield sentence
            sentence = Sentence(path)
    if sentence.rows:
        yield sentence


def _row(sentence: Sentence, number: int, line: str) -> Row:
    columns = tuple(line.split("\t"))
    if len(columns) != COLUMNS:
        sentence.fail(number, f"{len(columns)} columns where CoNLL-U has {COLUMNS}")
    return Row(number, columns)


def _tree(sentence: Sentence) -> Tree:
    words = [row for row in sentence.rows if not (row.is_range or row.is_empty_node)]
    for place, row in enumerate(words, start=1):
        if row.id != str(place):
            sentence.fail(row.number, f"word {row.id!r} where word {place} should be")
    if sentence.text is None:
        sentence.fail(sentence.rows[0].number, "a sentence without `# text`")
    _check_ranges(sentence, len(words))
    heads = tuple(_head(sentence, row, len(words)) for row in words)
    if (looped := _in_cycle(heads)) is not None:
        sentence.fail(words[looped].number, f"the heads above {words[looped].form!r} form a cycle")
    return Tree(
        text=sentence.text,
        words=tuple(_spans(sentence, sentence.text)),
        heads=heads,
        relations=tuple(normalised(row.columns[7], row.form) for row in words),
        tags=tuple(row.columns[3] for row in words),
    )


def _head(sentence: Sentence, row: Row, count: int) -> int:
    """The index of the head, from zero; CoNLL-U counts from one and calls the root's head 0."""
    named = row.columns[6]
    if not named.isdecimal() or int(named) > count or named == row.id:
        sentence.fail(row.number, f"head {named!r} of {row.form!r} is no other word's number")
    return int(named) - 1 if int(named) else ROOT


def _in_cycle(heads: Sequence[int]) -> int | None:
    """The first word that never leads to the root by its heads; None in a forest."""
    rooted: set[int] = {ROOT}
    for word in range(len(heads)):
        path = []
        while word not in rooted:
            if word in path:
                return word
            path.append(word)
            word = heads[word]
        rooted.update(path)
    return None


def _check_ranges(sentence: Sentence, count: int) -> None:
    """A multiword token stands directly before its words, all of which are there."""
    following, covered = 1, 0
    for row in sentence.rows:
        if row.is_range:
            width = _width(sentence, row)
            last = following + width - 1
            if row.id != f"{following}-{last}" or following <= covered or last > count:
                sentence.fail(row.number, f"the words of range {row.id!r} do not follow it")
            covered = last
        elif not row.is_empty_node:
            following = int(row.id) + 1


def _spans(sentence: Sentence, text: str) -> Iterator[tuple[int, int]]:
    """Span of each word in the text, in order."""
    edge = 0
    rows = iter([row for row in sentence.rows if not row.is_empty_node])
    for row in rows:
        start, edge = _locate(sentence, row, text, edge)
        if not row.is_range:
            yield start, edge
            continue
        parts = [next(rows).form for _ in range(_width(sentence, row))]
        yield from _divide(parts, text, start, edge)


def _locate(sentence: Sentence, row: Row, text: str, edge: int) -> tuple[int, int]:
    """The span of a surface token, which nothing but spaces may separate from the last one."""
    start = edge + len(text[edge:]) - len(text[edge:].lstrip())
    if not text.startswith(row.form, start):
        sentence.fail(row.number, f"{row.form!r} does not follow in `# text` at character {start}")
    return start, start + len(row.form)


def _width(sentence: Sentence, row: Row) -> int:
    """Number of words of a multiword token."""
    first, _, last = row.id.partition("-")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last)):
        sentence.fail(row.number, f"{row.id!r} is no range of words")
    return int(last) - int(first) + 1


def _divide(parts: Sequence[str], text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The spans of a multiword token's words within its own."""
    if "".join(parts) != text[start:end]:
        parts = [text[start:end], *[""] * (len(parts) - 1)]
    for part in parts:
        yield start, start + len(part)
        start += len(part)
