"""Numbers and verdicts in sources: written, checked, and nothing else touched."""

import json
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from published_table import put
from refusing import headbook

from headbook import paths
from headbook.book import numbers
from headbook.claims import scorecard

REFERENCE = "best[minilm; verb → object].value:%"
BOTH = "{claim}`a-claim: replicated; b-claim: not diagnostic`"
STALE, CURRENT = f"{{n}}`54 % <{REFERENCE}>`", f"{{n}}`55\u00a0% <{REFERENCE}>`"


VERDICTS = {"a-claim": "replicated", "b-claim": "not diagnostic"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    table = "model,question,value\nminilm,verb → object,0.55\nminilm,object → verb,0.7\n"
    return put(tmp_path, "13/best", table)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"In {STALE} of cases.", f"In {CURRENT} of cases."),
        (f"{{n}}`<{REFERENCE}>`", CURRENT),
        ("{n}`1\n<best[minilm;\nverb → object].value:%>`", CURRENT),
        ("{claim}`a-claim: mixed; b-claim`", BOTH),
    ],
)
def test_what_is_out_of_date_is_written_anew(root: Path, before: str, after: str) -> None:
    assert numbers.rewritten(before, "13", VERDICTS, root) == after


@pytest.mark.parametrize(
    "text",
    [CURRENT, BOTH, f"In 5 of `{{n}}` and ``{STALE}``.", "{claim}`a-claim:  replicated`",
     CURRENT.replace(" <", "\n<")],
)  # fmt: skip
def test_what_is_current_or_no_role_stays_as_it_is(root: Path, text: str) -> None:
    assert numbers.rewritten(text, "13", VERDICTS, root) == text


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """With keys in another order than nbformat's, which have to stay there."""
    cells = [new_markdown_cell(f"# T\n\nIn {STALE}: é"), new_code_cell(f"x = '{STALE}'")]
    content = dict(reversed(new_notebook(cells=cells).items()))
    for cell in content["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    path = tmp_path / "13_page.ipynb"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def test_a_notebook_keeps_all_bytes_but_those_of_the_number(notebook: Path, root: Path) -> None:
    before = notebook.read_text("utf-8")
    changes = numbers.update(notebook, VERDICTS, root=root)
    # in the Markdown cell, and not in the code
    expected = before.replace(STALE, CURRENT, 1)
    assert (notebook.read_text("utf-8"), changes) == (expected, [(STALE, CURRENT)])
    assert numbers.update(notebook, VERDICTS, root=root) == []
    nbformat.validate(nbformat.read(notebook, as_version=4))


def test_the_command_writes_and_its_check_only_reports(
    notebook: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "RESULTS", root)
    monkeypatch.setattr(scorecard, "stated", lambda: VERDICTS)
    before = notebook.read_bytes()
    assert headbook("numbers", str(notebook), "--check").exit_code == 2
    assert notebook.read_bytes() == before
    assert headbook("numbers", str(notebook)).exit_code == 0
    assert headbook("numbers", str(notebook), "--check").exit_code == 0


def test_every_number_and_verdict_of_the_book_is_the_published_one() -> None:
    files, verdicts = numbers.sources(), scorecard.stated()
    assert len(files) > 50 and {file.suffix for file in files} == {".ipynb", ".md"}
    stale = {file.name: numbers.update(file, verdicts, write=False) for file in files}
    assert not [(name, pair) for name, pairs in stale.items() for pair in pairs]
