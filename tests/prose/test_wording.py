"""Prose of the book: no number is typed, and the tutorial names what is public."""

from pathlib import Path

import pytest
from page_contract import digits

import headbook
from headbook import paths


@pytest.mark.parametrize("path", sorted(paths.BOOK.rglob("*.md")), ids=lambda path: path.name)
def test_no_number_is_typed_into_a_text_of_the_book(path: Path) -> None:
    assert digits(path.read_text("utf-8")) == []


def test_the_tutorial_names_every_public_function() -> None:
    (tutorial,) = paths.NOTEBOOKS.glob("60_*.ipynb")
    text = tutorial.read_text("utf-8")
    assert [name for name in headbook.__all__ if f"`hb.{name}" not in text] == []
