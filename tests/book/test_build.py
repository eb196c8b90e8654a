"""The book is built with warnings as errors, is whole, and light."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from fontTools import ttLib
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from refusing import refused

from headbook import paths
from headbook.publishing import book, contents

pytestmark = pytest.mark.slow


PAGE, BOOK = 1_000_000, 45_000_000
"""Most bytes of a page with its pictures, and of everything."""
FIRST_PAINT = 2_000_000
"""Bytes before a page can be seen: two seconds at 1.1 MB a second, and a little to spare."""
LOADED = re.compile(r'<(?:img|source)[^>]*\ssrc="([^":]+)"')
BLOCKING = re.compile(r'<link href="([^":]+)" rel="stylesheet"|<script src="([^":]+)"')


def weight(page: Path, named: set[str]) -> int:
    """Bytes of a page and of the files that it names."""
    files = (page.parent / name.partition("?")[0] for name in named)
    return page.stat().st_size + sum(file.stat().st_size for file in files if file.is_file())


def test_the_book_and_every_page_are_light(html: Path) -> None:
    for name in contents.pages():
        page = html / f"{name}.html"
        text = page.read_text("utf-8")
        assert weight(page, {*LOADED.findall(text)}) < PAGE, name
        blocking = {style or script for style, script in BLOCKING.findall(text)}
        assert 400_000 < weight(page, blocking) < FIRST_PAINT, f"{name}: styles are counted"
    assert sum(file.stat().st_size for file in html.rglob("*") if file.is_file()) < BOOK


def test_every_notebook_is_a_page_that_offers_it_as_executed(html: Path) -> None:
    listed = contents.notebooks()
    assert sorted(listed) == sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))
    for name in listed:
        text = (html / "_executed" / f"{name}.html").read_text("utf-8")
        assert f"_static/notebooks/{name}.ipynb" in text and "mybinder.org" not in text
        offered = nbformat.read(html / "_static" / "notebooks" / f"{name}.ipynb", as_version=4)
        assert any(cell.get("outputs") for cell in offered.cells)


@pytest.fixture
def small_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The book's settings around one page; returns the page."""
    folder = tmp_path / "small book"
    shutil.copytree(paths.BOOK, folder, ignore=shutil.ignore_patterns("_executed", "parts"))
    (folder / "_toc.yml").write_text("format: jb-book\nroot: intro\n", encoding="utf-8")
    monkeypatch.setattr(paths, "BOOK", folder)
    return folder / "intro.md"


def test_a_small_book_has_formulas_tables_and_a_fork_s_links_and_no_old_page(
    small_book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADBOOK_REPOSITORY", "https://github.com/somebody/headbook")
    shown = new_output("display_data", {"text/markdown": "| a |\n|---|\n| $x^2$ |"})
    drawn = new_output("display_data", {"text/html": "<b>a drawing</b>"})
    cells = [new_code_cell("show", outputs=[shown]), new_code_cell("draw", outputs=[drawn])]
    cells[1].id = "at-work"
    python = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    page = new_notebook(cells=[new_markdown_cell("# Title"), *cells], metadata=python)
    nbformat.write(page, tmp_path / "13_syntactic_heads.ipynb")
    formula = "\\mathbb{1} + \\lVert b^\\top \\rVert"
    text = f"# Title\n\n$$\n{formula}\n$$ (sum)\n\nSee {{eq}}`sum`.\n"
    text += "\n```{picture} 13 at-work\n```\n"
    small_book.write_text(text, encoding="utf-8")
    frame = "format: jb-book\nroot: intro\nparts:\n- chapters:\n  - glob: _executed/13*\n"
    small_book.with_name("_toc.yml").write_text(frame, encoding="utf-8")
    old = tmp_path / "out" / "_build" / "html" / "old.html"
    old.parent.mkdir(parents=True)
    old.touch()
    index = book.build(tmp_path / "out", executed=tmp_path)
    assert index.exists() and not old.exists()
    text = index.with_name("intro.html").read_text("utf-8")
    assert "<b>a drawing</b>" in text
    assert "<math" in text and "𝟙" in text and "mathvariant" not in text
    with ttLib.TTFont(index.with_name("_static") / "maths.woff") as font:
        assert "MATH" in font and {ord(each) for each in "𝟙⊤‖√𝑎∑"} <= set(font.getBestCmap())
    text = (index.parent / "_executed" / "13_syntactic_heads.html").read_text("utf-8")
    assert "<table" in text and "<msup>" in text
    notebook = "notebooks%2F13_syntactic_heads.ipynb"
    assert f"https://mybinder.org/v2/gh/somebody/headbook/HEAD?labpath={notebook}" in text
    assert "https://colab.research.google.com/github/somebody/headbook/blob/HEAD/notebooks" in text
    assert "https://github.com/somebody/headbook/issues/new" in text


def test_every_planted_fault_stops_the_build(small_book: Path, tmp_path: Path) -> None:
    """Each on a page of its own, and the log names each of them."""
    faults = {
        "intro": "[nowhere](nowhere.md)",
        "label": "{ref}`nowhere`",
        "work": "{cite}`nobody1900`",
        "formula": r"$\nosuchcommand$",
        "picture": "```{picture} 13 nowhere\n```",
    }
    for name, fault in faults.items():
        small_book.with_name(f"{name}.md").write_text(f"# Title\n\n{fault}\n", encoding="utf-8")
    chapters = "".join(f"- file: {name}\n" for name in list(faults)[1:])
    contents = f"format: jb-book\nroot: intro\nchapters:\n{chapters}"
    small_book.with_name("_toc.yml").write_text(contents, encoding="utf-8")
    with refused(r"warnings count as errors, first: .*\.md"):
        book.build(tmp_path / "out")
    said = (tmp_path / "out" / "build.log").read_text("utf-8")
    warned = re.findall(r"(\w+)\.md.*(?:WARNING|ERROR)", said)
    assert {*faults} <= {*warned}


def test_a_missing_executed_copy_is_named(tmp_path: Path) -> None:
    with refused(r"no executed copy of 01_anatomy.* headbook run"):
        book.build(tmp_path / "out", executed=tmp_path)
    assert not (tmp_path / "out").exists()
