"""The book is built with warnings as errors, is whole, and asks no other host for anything."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from fontTools import ttLib
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook import paths
from headbook.publishing import book, contents
from headbook.types import UserError

pytestmark = pytest.mark.slow

LOADING = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
}
ELSEWHERE = re.compile(r"^\s*(https?:)?//")
STYLE_REQUEST = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)")
SCRIPT_REQUEST = re.compile(
    r"(?:import|fetch|importScripts|src\s*=|href\s*=|_URL\s*=)\W{0,3}['\"](https?://[^'\"]+)"
)


class Page(HTMLParser):
    """What a page asks other hosts for, its images, and the names of its figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.named_figures = 0
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside = tag
        loaded = [given[name] or "" for name in LOADING.get(tag, ()) if name in given]
        self.requests += [value for value in loaded if ELSEWHERE.match(value)]
        self.requests += STYLE_REQUEST.findall(given.get("style") or "")
        if tag == "img":
            self.images.append(given)
        self.named_figures += given.get("role") in ("img", "figure") and bool(
            given.get("aria-label")
        )

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.requests += SCRIPT_REQUEST.findall(data)
        if self._inside == "style":
            self.requests += STYLE_REQUEST.findall(data)


def _described(image: dict[str, str | None]) -> bool:
    """Whether alt text is there and is not the file's name, which docutils puts in its absence."""
    alternative = image.get("alt") or ""
    return bool(alternative) and Path(alternative).name != Path(image.get("src") or "").name


@pytest.mark.parametrize("page", contents.pages())
def test_a_page_of_the_contents_is_there_and_not_empty(page: str, html: Path) -> None:
    text = (html / f"{page}.html").read_text("utf-8")
    assert "<h1>" in text
    assert "math.min.js" not in text.lower()
    assert "mathjax" not in text.lower()


def test_every_notebook_is_in_the_contents() -> None:
    listed = contents.notebooks()
    assert sorted(listed) == sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("page", [p for p in contents.pages() if p.startswith("_executed/")])
def test_a_page_has_a_described_figure_and_says_how_it_was_made(page: str, html: Path) -> None:
    text = (html / f"{page}.html").read_text("utf-8")
    parsed = Page(text)
    assert all(_described(image) for image in parsed.images)
    assert parsed.images or parsed.named_figures
    assert "headbook run" in text, "how it was made stands below its fold"


def test_no_page_and_no_style_asks_another_host(html: Path) -> None:
    pages = sorted(html.rglob("*.html"))
    asked = {str(p.relative_to(html)): Page(p.read_text("utf-8")).requests for p in pages}
    assert not {page: requests for page, requests in asked.items() if requests}
    styles = [path.read_text("utf-8") for path in html.rglob("*.css")]
    assert not [found for style in styles for found in STYLE_REQUEST.findall(style)]


def test_a_notebook_is_offered_as_it_was_executed_and_nothing_from_elsewhere(html: Path) -> None:
    for name in contents.notebooks():
        text = (html / "_executed" / f"{name}.html").read_text("utf-8")
        assert f"_static/notebooks/{name}.ipynb" in text
        assert "mybinder.org" not in text and "colab.research" not in text
        offered = nbformat.read(html / "_static" / "notebooks" / f"{name}.ipynb", as_version=4)
        assert any(cell.get("outputs") for cell in offered.cells)


@pytest.mark.parametrize(
    "planted",
    [
        '<script src="https://cdn.example.org/x.js"></script>',
        '<link rel="preconnect" href="https://fonts.example.org">',
        '<link rel="stylesheet" href="//fonts.example.org/a.css">',
        '<img src="http://example.org/a.png" alt="a">',
        '<p style="background: url(https://example.org/a.png)">x</p>',
        '<style>@import "https://example.org/a.css";</style>',
        '<script>const THEBE_JS_URL = "https://example.org/thebe.js"</script>',
        '<script type="module">import "https://example.org/m.mjs"</script>',
    ],
)
def test_a_planted_request_is_seen(planted: str) -> None:
    assert len(Page(f"<html><body>{planted}</body></html>").requests) == 1


def test_a_link_to_elsewhere_is_no_request() -> None:
    assert not Page('<a href="https://example.org">x</a>').requests


def test_alt_text_that_is_the_file_name_is_no_description() -> None:
    assert not _described({"src": "../_images/1.png", "alt": "../_images/1.png"})
    assert not _described({"src": "1.png"})
    assert _described({"src": "1.png", "alt": "confidence of every head"})


@pytest.fixture
def small_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The book's settings around one page; returns the page."""
    folder = tmp_path / "small book"
    shutil.copytree(paths.BOOK, folder, ignore=shutil.ignore_patterns("_executed", "parts"))
    (folder / "_toc.yml").write_text("format: jb-book\nroot: intro\n", encoding="utf-8")
    monkeypatch.setattr(paths, "BOOK", folder)
    return folder / "intro.md"


def page_in(folder: Path, name: str, *cells: NotebookNode) -> None:
    """An executed copy with a title and these cells."""
    python = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    page = new_notebook(cells=[new_markdown_cell("# Title"), *cells], metadata=python)
    nbformat.write(page, folder / f"{name}.ipynb")


def test_a_small_book_has_formulas_tables_and_a_fork_s_links_and_no_old_page(
    small_book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADBOOK_REPOSITORY", "https://github.com/somebody/headbook")
    shown = new_output("display_data", {"text/markdown": "| a |\n|---|\n| $x^2$ |"})
    drawn = new_output("display_data", {"text/html": "<b>a drawing</b>"})
    cells = [new_code_cell("show", outputs=[shown]), new_code_cell("draw", outputs=[drawn])]
    cells[1].id = "at-work"
    page_in(tmp_path, "13_syntactic_heads", *cells)
    formula = "\\mathbb{1} + \\lVert b^\\top \\rVert"
    text = f"# Title\n\n$$\n{formula}\n$$ (sum)\n\nSee {{eq}}`sum`.\n"
    text += "\n```{picture} 13 at-work\n```\n"
    small_book.write_text(text, encoding="utf-8")
    frame = "format: jb-book\nroot: intro\nparts:\n- chapters:\n  - glob: _executed/13*\n"
    small_book.with_name("_toc.yml").write_text(frame, encoding="utf-8")
    old = tmp_path / "out" / "_build" / "html" / "old.html"
    old.parent.mkdir(parents=True)
    old.touch()
    (tmp_path / "out" / book.MARKER).touch()
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
    with pytest.raises(UserError, match=r"warnings count as errors, first: .*\.md"):
        book.build(tmp_path / "out")
    said = (tmp_path / "out" / "build.log").read_text("utf-8").splitlines()
    warned = [line for line in said if "WARNING" in line or "ERROR" in line]
    assert not [name for name in faults if not any(f"{name}.md" in line for line in warned)]


def test_a_missing_executed_copy_is_named_and_the_built_book_stays(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no executed copy of 01_anatomy.* headbook run"):
        book.build(tmp_path / "out", executed=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_not_emptied(small_book: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UserError, match="holds other files"):
        book.build(tmp_path)
    assert (tmp_path / "mine.txt").exists()
