"""Prose of the book: one spelling for each model, retired phrases, and numbers that are typed."""

import re
from pathlib import Path

import nbformat
import pytest
from page_contract import NUMBER, digits

import headbook
from headbook import paths
from headbook.book.numbers import sources

RETIRED = {
    r"(?<!code )`minilm`": "MiniLM (`minilm` only where code is typed)",
    r"(?<!code )`smollm2`": "SmolLM2 (`smollm2` only where code is typed)",
    r"\b[Ff]irefox (?:en|pt)\b|\bpt→en\b|\ben→pt\b|\btwin\b": "`firefox-en-pt`, `firefox-pt-en`",
    r"\ben→fr\b": "`mixture-fr-256`",
    r"\ben→de\b": "`tatoeba-de-128-more-updates`",
    r"\b[Oo]ur (?:own )?(?:masked )?encoder\b|\b[Oo]ur own `": "`mixture-fr-256-masked`",
    r'(?<!["*])\bdrawn anew\b': "re-initialised",
    r"\b(?:its|their|the) own[ -]token\b(?!\*)": "the token itself",
    r"\b(?:is|are) missed\b|\bmissed (?:most|together)\b": "hurts when removed",
    r"\b(?:as|than) chance does\b": "no better than chance",
    r"\bstood still\b": "stopped improving",
    r"\byoung (?:model|translator|encoder)": "briefly trained",
}
"""What readers stumbled over, and what to say instead."""
FILES = sources()


def prose(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text("utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def retired(text: str) -> list[str]:
    """Phrases of a text that have a better one; keys of tables in references do not count."""
    text = NUMBER.sub(" ", text)
    return [f"{match[0]!r}: say {better}" for phrase, better in RETIRED.items()
            for match in re.finditer(phrase, text)]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_text_uses_the_names_and_words_of_the_book(path: Path) -> None:
    assert retired(prose(path)) == []


@pytest.mark.parametrize("path", sorted(paths.BOOK.rglob("*.md")), ids=lambda path: path.name)
def test_no_number_is_typed_into_a_text_of_the_book(path: Path) -> None:
    assert digits(path.read_text("utf-8")) == []


def test_the_tutorial_names_every_public_function() -> None:
    (tutorial,) = paths.NOTEBOOKS.glob("60_*.ipynb")
    text = prose(tutorial)
    assert [name for name in headbook.__all__ if f"`hb.{name}" not in text] == []
