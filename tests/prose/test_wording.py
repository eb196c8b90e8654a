"""Prose of the book: names, no number is typed, and the tutorial names what is public."""

import re
from pathlib import Path

import nbformat
import pytest
from page_contract import NUMBER, digits

import headbook
from headbook import paths
from headbook.book.numbers import sources

RETIRED = {
    r"(?<!code )`minilm`|(?<!code )`smollm2`": "MiniLM, SmolLM2 (`minilm` where code is typed)",
    r"\b[Ff]irefox (?:en|pt)\b|\bpt→en\b|\ben→pt\b|\btwin\b": "`firefox-en-pt`, `firefox-pt-en`",
    r"\b[Oo]ur (?:own )?(?:masked )?encoder\b|\b[Oo]ur own `": "`mixture-fr-256-masked`",
    r"\byoung (?:model|translator|encoder)": "briefly trained",
}
"""Other names of the book's models, and what to say instead."""


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.stem)
def test_a_text_calls_models_by_their_names(path: Path) -> None:
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = nbformat.reads(text, 4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    found = re.findall("|".join(RETIRED), NUMBER.sub(" ", text))
    assert not found, RETIRED


@pytest.mark.parametrize("path", sorted(paths.BOOK.rglob("*.md")), ids=lambda path: path.name)
def test_no_number_is_typed_into_a_text_of_the_book(path: Path) -> None:
    assert digits(path.read_text("utf-8")) == []


def test_the_tutorial_names_every_public_function() -> None:
    (tutorial,) = paths.NOTEBOOKS.glob("60_*.ipynb")
    text = tutorial.read_text("utf-8")
    assert [name for name in headbook.__all__ if f"`hb.{name}" not in text] == []
