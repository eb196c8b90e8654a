"""What a reader loads: every page and the book as a whole."""

import re
from pathlib import Path

import pytest

from headbook.publishing import contents

PAGE, BOOK = 1_000_000, 40_000_000
FIRST_PAINT = 2_000_000
"""Bytes before a page can be seen: two seconds at 1.1 MB a second, and a little to spare."""
LOADED = re.compile(r'<(?:img|source)[^>]*\ssrc="([^":]+)"')
BLOCKING = re.compile(r'<link href="([^":]+)" rel="stylesheet"|<script src="([^":]+)"')


def weight(page: Path) -> int:
    """Bytes of a page and of its pictures."""
    text = page.read_text("utf-8")
    return len(text.encode()) + sum(_size(page, name) for name in set(LOADED.findall(text)))


def before_paint(page: Path) -> int:
    """Bytes of a page, its styles and the scripts that are not deferred."""
    text = page.read_text("utf-8")
    named = {style or script for style, script in BLOCKING.findall(text)}
    return len(text.encode()) + sum(_size(page, name) for name in named)


def _size(page: Path, name: str) -> int:
    file = page.parent / name.partition("?")[0]
    return file.stat().st_size if file.is_file() else 0


@pytest.mark.parametrize("page", contents.pages())
def test_a_page_is_light(page: str, html: Path) -> None:
    file = html / f"{page}.html"
    assert weight(file) < PAGE
    assert 400_000 < before_paint(file) < FIRST_PAINT, "styles are counted"


def test_the_book_is_light(html: Path) -> None:
    assert sum(file.stat().st_size for file in html.rglob("*") if file.is_file()) < BOOK


def test_nothing_is_there_that_no_page_needs(html: Path) -> None:
    static = html / "_static"
    assert not list(static.rglob("*.map")) and not (static / "locales").exists()
    assert max(file.stat().st_size for file in static.rglob("*.js")) < 200_000


def test_pictures_and_styles_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x" * 5000)
    (tmp_path / "a.css").write_bytes(b"x" * 3000)
    page = tmp_path / "page.html"
    page.write_text('<link href="a.css?v=1" rel="stylesheet"><img alt="a" src="a.png">', "utf-8")
    own = page.stat().st_size
    assert weight(page) == own + 5000
    assert before_paint(page) == own + 3000
