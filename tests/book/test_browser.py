"""Every page of the book in a browser, and every check with a page that it must refuse."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headbook.publishing import contents

sys.path.insert(0, str(Path(__file__).parent))
import browser as looking

pytestmark = [
    pytest.mark.slow,  # a browser is many processes
    pytest.mark.skipif(looking.executable() is None, reason="no Chromium: install it"),
]
CLEAN = "<title>t</title><main class='bd-article'><h1>t</h1><p>text</p></main>"
PICTURE = (
    "<svg width='{0}' height='80' role='img' aria-label='a'><rect width='40' height='80'/></svg>"
)
PLANTED = {
    "an image wider than its column": (PICTURE.format(1500), "too wide at 1400 px"),
    "an image wider than a phone": (PICTURE.format(700), "too wide at 390 px"),
    "stream output": ("<div class='output stream'>a warning</div>", "stream output"),
    "escape codes": ("<pre>[0;31mred[0m</pre>", "escape codes"),
    "a picture of one colour": (PICTURE.format(200).replace("<rect", "<g"), "flat in dark mode"),
    "a request to elsewhere": (
        "<script>fetch('https://example.org/a').catch(() => 0)</script>",
        "requests to elsewhere",
    ),
    "a script error": ("<script>nobody()</script>", "script errors"),
    "a link to no page": ("<a href='nowhere.html'>there</a>", "links that lead nowhere"),
    "a link to no place": ("<a href='#nowhere'>there</a>", "links that lead nowhere"),
    "a file's name as its text": ("<img src='a/1.png' alt='1.png'>", "no description"),
    "a picture without a text": ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "axe"),
    "black in a dark box, last of many": (
        "<p>text</p>" * 20 + "<div style='background:#222'><i><p>text</p></i></div>", "axe",
    ),
    "grey among the words of code": (
        f"<pre>{'<span>of</span> ' * 20}<span style='color:#bbb'>to</span></pre>", "axe",
    ),
    "a link a little darker than the text around it, as others are": (
        "<p style='color:#222'>text</p>" * 20
        + "<p>before <a href='' style='color:#222;text-decoration:none'>link</a> and</p>", "axe",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[object]:
    with looking.chromium() as browser:
        yield browser


@pytest.mark.parametrize("page", contents.pages())
def test_a_reader_stumbles_over_nothing(page: str, chromium: object, html: Path) -> None:
    notebook = page.startswith(contents.EXECUTED)
    assert looking.look(chromium, html / f"{page}.html", html, notebook) == {}


def test_a_clean_page_has_no_complaint(chromium: object, tmp_path: Path) -> None:
    shown = PICTURE.format(200).replace("<rect", "<rect fill='#888'")
    table = "<table style='width:1500px'><tr><td>1</table>"
    scrolls = f"<div style='overflow-x:auto' tabindex='0'>{table}</div>"
    assert _planted(chromium, tmp_path, shown + scrolls) == {}


@pytest.mark.parametrize(
    ("inside", "kind"),
    [
        ("<p style='height:950px'></p><div class='headbook-view'>a</div>", "figures"),
        ("<p style='height:11500px'></p>" + "<p style='break-after:page'>1</p>" * 16, "on paper"),
        ("<div class='headbook-view' style='height:460px'>a</div>" + "<p>a</p>" * 200, None),
    ],
)
def test_a_late_figure_and_many_sheets_are_seen(
    inside: str, kind: str | None, chromium: object, tmp_path: Path
) -> None:
    seen = _planted(chromium, tmp_path, inside, notebook=True)
    assert (kind in seen) if kind else seen == {}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_seen(fault: str, chromium: object, tmp_path: Path) -> None:
    inside, kind = PLANTED[fault]
    assert kind in _planted(chromium, tmp_path, inside)


def _planted(
    chromium: object, folder: Path, inside: str, notebook: bool = False
) -> dict[str, list[str]]:
    body = CLEAN.replace("<p>text</p>", f"<p>text</p>{inside}")
    file = folder / "page.html"
    file.write_text(f"<!doctype html><html lang='en'><style>body{{margin:0}}</style>{body}</html>",
                    encoding="utf-8")  # fmt: skip
    return looking.look(chromium, file, folder, notebook)
