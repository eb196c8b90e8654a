"""The roles `n` and `claim` in a small Sphinx project: what they show, and what they warn of."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from published_table import put

from headbook import paths
from headbook.claims import scorecard
from headbook.claims.ledger import load
from headbook.claims.verdict import Result, Verdict

CLAIM = "voita-t1-dobj-head-to-dependent"
TABLE = """\
model,question,value,value_low,value_high
minilm,<a> & b,0.55,0.5,0.6
firefox-en-pt,<a> & b,0.66,0.63,0.694
"""
Build = Callable[[str], tuple[str, str]]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Builds a page 13 with this text; gives its HTML and the warnings."""
    from io import StringIO

    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    extensions = str(paths.BOOK / "_ext")
    monkeypatch.setattr(sys, "path", [*sys.path, extensions])
    judged = Result(load().claim(CLAIM), (), Verdict.CONTRADICTED)
    monkeypatch.setattr(scorecard, "current", lambda: {CLAIM: judged})
    monkeypatch.setattr(paths, "RESULTS", put(tmp_path / "results", "13/best", TABLE))
    source = tmp_path / "source"
    (source / "_executed").mkdir(parents=True)
    settings = {"extensions": ["myst_parser", "prose_roles"], "root_doc": "_executed/13_page"}

    def built(text: str) -> tuple[str, str]:
        sys.modules.pop("prose_roles", None)  # it keeps the claims of a build
        (source / "_executed" / "13_page.md").write_text(f"# T\n\n{text}\n", encoding="utf-8")
        warnings, output = StringIO(), tmp_path / "out"
        with docutils_namespace(), patch_docutils():
            Sphinx(source, None, output, tmp_path / "tree", "html", confoverrides=settings,
                   status=None, warning=warnings, freshenv=True).build()  # fmt: skip
        page = output / "_executed" / "13_page.html"
        return page.read_text("utf-8"), warnings.getvalue()

    return built


def test_a_number_has_its_cell_as_a_tooltip(build: Build) -> None:
    page, warnings = build("In {n}`66\u00a0% [63, 69] <best[firefox-en-pt; <a> & b].value:%ci>`.")
    assert not warnings
    origin = "13/best: firefox-en-pt, &lt;a&gt; &amp; b; value 0.66, 0.63 to 0.694"
    assert f'title="{origin}">66\u00a0% [63, 69]</abbr>' in page


WRONG = [
    ("{n}`65\u00a0% <best[firefox-en-pt].value:%>`", "66"),
    ("{n}`66 % <best[firefox-en-pt].value:%>`", "66"),  # without the space that does not break
    ("{n}`66 %`", "names no cell"),
    ("{n}`66 % <best[firefox].value:%>`", "firefox-en-pt"),
    (f"{{claim}}`{CLAIM}: replicated`", "contradicted"),
    (f"{{claim}}`{CLAIM}`", "contradicted"),
    (f"{{claim}}`{CLAIM}: contradicted; {CLAIM}s: replicated`", f"{CLAIM}s"),
]


def test_what_is_not_the_published_result_is_a_warning_where_it_stands(build: Build) -> None:
    _, warnings = build("\n\n".join(text for text, _ in WRONG))
    lines = warnings.splitlines()
    for line, warning, (_, said) in zip(range(3, 99, 2), lines, WRONG, strict=False):
        assert f"13_page.md:{line}: WARNING" in warning and said in warning
    assert len(lines) == len(WRONG)


def test_a_claim_is_a_badge_that_opens_its_line_on_the_scorecard(build: Build) -> None:
    page, warnings = build(f"**So** {{claim}}`{CLAIM}: contradicted`")
    assert not warnings
    (_, badge), (_, *more) = (page.split(each) for each in ('<a class="headbook-claim', "<svg"))
    assert not more[1:]
    badge = badge.partition("</a>")[0]
    assert f'href="../_generated/scorecard.html#{CLAIM}"' in badge
    assert badge.endswith(" contradicted") and badge.startswith(" contradicted ")
