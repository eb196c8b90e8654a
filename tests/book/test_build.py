"""The book is built with warnings as errors, is whole, and asks no other host for anything."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook import paths
from headbook.chapters.chapter import chapters, find
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
        self.plotly_figures = 0
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
        self.plotly_figures += "plotly-graph-div" in (given.get("class") or "")

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
    assert "math.min" not in text.lower()
    assert "mathjax" not in text.lower()


def test_every_notebook_and_every_chapter_is_in_the_contents() -> None:
    listed = contents.notebooks()
    assert sorted(listed) == sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb"))
    assert {chapter.name for chapter in chapters()} <= set(listed)


@pytest.mark.parametrize("page", [p for p in contents.pages() if p.startswith("_executed/")])
def test_an_executed_page_has_a_described_figure_and_its_banner(page: str, html: Path) -> None:
    text = (html / f"{page}.html").read_text("utf-8")
    parsed = Page(text)
    assert all(_described(image) for image in parsed.images)
    assert parsed.images or parsed.named_figures
    assert parsed.plotly_figures <= parsed.named_figures, "a plotly figure without aria-label"
    if find(Path(page).name):  # a chapter says below its fold how it was made
        assert "headbook-profile" not in text
        assert "headbook run" in text
        return
    assert text.count("headbook-profile") == 1
    assert "no evidence about real languages" in text


def test_no_page_and_no_style_asks_another_host(html: Path) -> None:
    pages = sorted(html.rglob("*.html"))
    asked = {str(p.relative_to(html)): Page(p.read_text("utf-8")).requests for p in pages}
    assert not {page: requests for page, requests in asked.items() if requests}
    styles = [path.read_text("utf-8") for path in html.rglob("*.css")]
    assert not [found for style in styles for found in STYLE_REQUEST.findall(style)]


def test_interactive_figures_wait_until_they_come_into_view(html: Path) -> None:
    for path in html.rglob("*.html"):
        text = path.read_text("utf-8")
        assert "plotly.min.js" not in text, f"{path} loads plotly at once"
        assert ("_static/views.js" in text) == ("Plotly.newPlot" in text), path
        held_back = text.count('class="headbook-view"')
        assert held_back == text.count("Plotly.newPlot"), path


def test_a_notebook_is_offered_without_outputs_and_nothing_is_offered_from_elsewhere(
    html: Path,
) -> None:
    for name in contents.notebooks():
        text = (html / "_executed" / f"{name}.html").read_text("utf-8")
        assert f"_static/notebooks/{name}.ipynb" in text
        assert "mybinder.org" not in text and "colab.research" not in text
        offered = nbformat.read(html / "_static" / "notebooks" / f"{name}.ipynb", as_version=4)
        assert not any(cell.get("outputs") for cell in offered.cells)


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


def test_a_small_book_is_built_and_leaves_no_old_page(small_book: Path, tmp_path: Path) -> None:
    small_book.write_text("# Title\n\n$$\na + b\n$$ (sum)\n\nSee {eq}`sum`.\n", encoding="utf-8")
    index = book.build(tmp_path / "out")
    text = index.with_name("intro.html").read_text("utf-8")
    assert "<math" in text
    assert index.exists()
    index.with_name("old.html").touch()
    assert not book.build(tmp_path / "out").with_name("old.html").exists()


def test_a_published_fork_has_launch_buttons_and_an_issue_link(
    small_book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADBOOK_REPOSITORY", "https://github.com/somebody/headbook")
    python = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    page = new_notebook(cells=[new_markdown_cell("# Title")], metadata=python)
    nbformat.write(page, tmp_path / "13_syntactic_heads.ipynb")
    small_book.write_text("# Title\n", encoding="utf-8")
    frame = "format: jb-book\nroot: intro\nparts:\n- chapters:\n  - glob: _executed/13*\n"
    small_book.with_name("_toc.yml").write_text(frame, encoding="utf-8")
    index = book.build(tmp_path / "out", executed=tmp_path)
    text = (index.parent / "_executed" / "13_syntactic_heads.html").read_text("utf-8")
    notebook = "notebooks%2F13_syntactic_heads.ipynb"
    assert f"https://mybinder.org/v2/gh/somebody/headbook/HEAD?labpath={notebook}" in text
    assert "https://colab.research.google.com/github/somebody/headbook/blob/HEAD/notebooks" in text
    assert "https://github.com/somebody/headbook/issues/new" in text


def test_a_table_a_notebook_computes_is_a_table_in_the_book(
    small_book: Path, tmp_path: Path
) -> None:
    shown = new_output("display_data", {"text/markdown": "| a |\n|---|\n| $x^2$ |"})
    cells = [new_markdown_cell("# Title"), new_code_cell("show", outputs=[shown])]
    python = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    nbformat.write(new_notebook(cells=cells, metadata=python), tmp_path / "10_page.ipynb")
    small_book.write_text("# Title\n", encoding="utf-8")
    contents = "format: jb-book\nroot: intro\nchapters:\n- file: _executed/10_page\n"
    small_book.with_name("_toc.yml").write_text(contents, encoding="utf-8")
    index = book.build(tmp_path / "out", executed=tmp_path)
    text = (index.parent / "_executed" / "10_page.html").read_text("utf-8")
    assert "<table" in text
    assert "<msup>" in text


@pytest.mark.parametrize(
    "fault",
    ["[nowhere](nowhere.md)", "{ref}`nowhere`", "{cite}`nobody1900`", r"$\nosuchcommand$"],
)
def test_a_planted_fault_stops_the_build(fault: str, small_book: Path, tmp_path: Path) -> None:
    small_book.write_text(f"# Title\n\n{fault}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"warnings count as errors, first: .*intro\.md"):
        book.build(tmp_path / "out")


def test_a_missing_executed_copy_is_named_and_the_built_book_stays(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no executed copy of 01_anatomy.* headbook run"):
        book.build(tmp_path / "out", executed=tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_not_emptied(small_book: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UserError, match="holds other files"):
        book.build(tmp_path)
    assert (tmp_path / "mine.txt").exists()
