"""Gold trees from CoNLL-U files, the format of the Universal Dependencies treebanks."""

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NoReturn
from unicodedata import normalize

from headbook.text.files import text_lines
from headbook.text.labels import normalised
from headbook.text.trees import Tree
from headbook.types import UserError

COLUMNS = 10
ID, FORM, TAG, HEAD, RELATION, MISC = 0, 1, 3, 6, 7, 9
TEXT = re.compile(r"#\s*text\s*=\s*(.*?)\s*")
JOINED = "SpaceAfter=No"
Row = list[str]
"""The columns of one word; a multiword token (3-4 `don't`) stands before its words."""


def read_conllu(path: str | Path) -> list[Tree]:
    """Every sentence of a plain or gzipped CoNLL-U file, labels normalised, empty nodes left out.

    Words are located in `# text`, composed letters and kinds of spaces taken alike; without it the
    text is that of the words. Words of a multiword token that do not spell it out (German `am` for
    `an dem`) leave the first of them the whole token, the others an empty span. A sentence whose
    heads are missing, lie outside or form a cycle is left out, and a warning counts these. Raises
    UserError with file and line when the file is malformed.
    """
    numbered = enumerate(text_lines(Path(path)), start=1)
    blocks = groupby(numbered, key=lambda each: bool(each[1].strip()))
    sentences = [[*block] for filled, block in blocks if filled]
    sentences = [lines for lines in sentences if not all(_comment(line) for _, line in lines)]
    trees, broken = [], []
    for lines in sentences:
        try:
            trees.append(_tree(lines, path))
        except ValueError as error:
            broken.append(f"line {lines[0][0]}: {error}")
    if broken:
        count = f"{len(broken)} of {len(sentences)} sentences"
        warnings.warn(f"{path}: {count} have no tree and are left out ({broken[0]})", stacklevel=2)
    return trees


def _comment(line: str) -> bool:
    return line.startswith("#") and "\t" not in line


def _tree(lines: Sequence[tuple[int, str]], path: str | Path) -> Tree:
    """The tree of a sentence's numbered lines; ValueError where its heads make none."""

    def fail(what: str) -> NoReturn:
        raise UserError(f"{path}, sentence from line {lines[0][0]}: {what}; is this CoNLL-U?")

    texts = [found[1] for _, line in lines if (found := TEXT.fullmatch(line))]
    rows = [_columns(line) for _, line in lines if not _comment(line)]
    if short := [len(row) for row in rows if len(row) != COLUMNS]:
        fail(f"{short[0]} columns where CoNLL-U has {COLUMNS}")
    rows = [row for row in rows if "." not in row[ID]]  # 8.1 is said by nobody
    words = [row for row in rows if "-" not in row[ID]]
    if [row[ID] for row in words] != [str(place) for place in range(1, len(words) + 1)]:
        fail("its words are not numbered one by one")
    text = ""
    try:
        text = texts[-1] if texts else _text(rows)
        spans = tuple(_spans(rows, text))
    except ValueError as error:
        fail(str(error))
    if odd := [row[HEAD] for row in words if not row[HEAD].isdigit()]:
        raise ValueError(f"a head is {odd[0]!r}")
    return Tree(
        text=text,
        words=spans,
        heads=tuple(int(row[HEAD]) - 1 for row in words),  # the root's head is 0
        relations=tuple(normalised(row[RELATION], row[FORM]) for row in words),
        tags=tuple(row[TAG] for row in words),
    )


def _columns(line: str) -> Row:
    """The columns of a line, without what is empty at its end."""
    row = line.split("\t")
    while len(row) > COLUMNS and not row[-1].strip():
        row.pop()
    return [each.strip(" ") for each in row]


def _text(rows: Sequence[Row]) -> str:
    """The text that the tokens are of, with a space behind each that has no other sign."""
    written, inside = "", 0
    for row in rows:
        first, between, last = row[ID].partition("-")
        if not between and int(first) <= inside:
            continue
        inside = int(last) if between else inside
        written += row[FORM] + " " * (JOINED not in row[MISC].split("|"))
    return written.rstrip()


def _spans(rows: Sequence[Row], text: str) -> Iterator[tuple[int, int]]:
    """Span of each word in the text; ValueError where the tokens do not spell it out in order."""
    edge = 0
    following = iter(rows)
    for row in following:
        start = edge + len(text[edge:]) - len(text[edge:].lstrip())
        edge = _end(row[FORM], text, start)
        if "-" not in row[ID]:
            yield start, edge
            continue
        first, _, last = row[ID].partition("-")
        numbers = [str(number) for number in range(int(first), int(last) + 1)]
        words = [next(following, None) for _ in numbers]
        if [word and word[ID] for word in words] != numbers or not numbers:
            raise ValueError(f"the words of {row[ID]} do not follow it")
        parts = [word[FORM] for word in words if word]
        if "".join(parts) != text[start:edge]:
            parts = [text[start:edge], *[""] * (len(parts) - 1)]
        for part in parts:
            yield start, start + len(part)
            start += len(part)


def _end(form: str, text: str, start: int) -> int:
    """Where a form that begins there ends; ValueError where another text stands there."""
    if text.startswith(form, start):
        return start + len(form)
    wanted = _plain(form)
    for end in range(start + 1, min(start + LONGER * len(form), len(text)) + 1):
        if _plain(text[start:end]) == wanted:
            return end
    raise ValueError(f"{form!r} does not follow in `# text` at character {start}")


LONGER = 4
"""Times that a form is shorter than its text at most: a composed letter has up to three parts."""


def _plain(text: str) -> str:
    """Composed, with one kind of space."""
    return "".join(" " if each.isspace() else each for each in normalize("NFC", text))
