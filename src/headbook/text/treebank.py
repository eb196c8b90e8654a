"""Gold trees from CoNLL-U files, the format of the Universal Dependencies treebanks."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NoReturn

from headbook.text.files import text_lines
from headbook.text.labels import normalised
from headbook.text.trees import Tree
from headbook.types import UserError

COLUMNS = 10
ID, FORM, TAG, HEAD, RELATION = 0, 1, 3, 6, 7
TEXT = "# text = "
Row = list[str]
"""The columns of one word; a multiword token (3-4 `don't`) stands before its words."""


def read_conllu(path: str | Path) -> list[Tree]:
    """Every sentence of a plain or gzipped CoNLL-U file, labels normalised, empty nodes left out.

    Words are located in `# text`. Words of a multiword token that do not spell it out (German
    `am` for `an dem`) leave the first of them the whole token, the others an empty span.
    Raises UserError with file and line when the file is malformed.
    """
    numbered = enumerate(text_lines(Path(path)), start=1)
    blocks = groupby(numbered, key=lambda each: bool(each[1]))
    sentences = ([*block] for filled, block in blocks if filled)
    return [tree for lines in sentences if (tree := _tree(lines, path)) is not None]


def _tree(lines: Sequence[tuple[int, str]], path: str | Path) -> Tree | None:
    """The tree of a sentence's numbered lines; None where all of them are comments."""

    def fail(what: str) -> NoReturn:
        raise UserError(f"{path}, sentence from line {lines[0][0]}: {what}; is this CoNLL-U?")

    texts = [line.removeprefix(TEXT) for _, line in lines if line.startswith(TEXT)]
    rows = [line.split("\t") for _, line in lines if not line.startswith("#")]
    if not rows:
        return None
    if short := [len(row) for row in rows if len(row) != COLUMNS]:
        fail(f"{short[0]} columns where CoNLL-U has {COLUMNS}")
    if not texts:
        fail("there is no `# text`")
    rows = [row for row in rows if "." not in row[ID]]  # 8.1 is said by nobody
    words = [row for row in rows if "-" not in row[ID]]
    if [row[ID] for row in words] != [str(place) for place in range(1, len(words) + 1)]:
        fail("its words are not numbered one by one")
    try:
        return Tree(
            text=texts[-1],
            words=tuple(_spans(rows, texts[-1])),
            heads=tuple(int(row[HEAD]) - 1 for row in words),  # the root's head is 0
            relations=tuple(normalised(row[RELATION], row[FORM]) for row in words),
            tags=tuple(row[TAG] for row in words),
        )
    except ValueError as error:
        fail(str(error))


def _spans(rows: Sequence[Row], text: str) -> Iterator[tuple[int, int]]:
    """Span of each word in the text; ValueError where the tokens do not spell it out in order."""
    edge = 0
    following = iter(rows)
    for row in following:
        start = edge + len(text[edge:]) - len(text[edge:].lstrip())
        if not text.startswith(row[FORM], start):
            raise ValueError(f"{row[FORM]!r} does not follow in `# text` at character {start}")
        edge = start + len(row[FORM])
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
