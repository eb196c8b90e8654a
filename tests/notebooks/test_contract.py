"""What a notebook template may hold, read from its text alone."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from page_contract import of_every

from headbook import paths

# one that is not there, when there is none: a test that does not run could not fail
NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb")) or [paths.NOTEBOOKS / "no_notebooks.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_contract(path: Path) -> None:
    assert path.exists(), f"no notebooks in {paths.NOTEBOOKS}"
    assert re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem)
    assert not list(of_every(nbformat.read(path, as_version=4)))


def _plain() -> NotebookNode:
    parameters = new_code_cell('profile = "quick"', metadata={"tags": ["parameters"]})
    call = new_code_cell("from headbook import plots\n\nplots.heads(plots)")
    return new_notebook(cells=[new_markdown_cell("# Title"), parameters, call])


def test_a_plain_notebook_has_no_complaint() -> None:
    assert not list(of_every(_plain()))


@pytest.mark.parametrize("source", ["!ls", "%matplotlib inline", "open('/etc/hosts')", "f = '~/a'"])
def test_a_planted_fault_in_a_cell_is_seen(source: str) -> None:
    notebook = _plain()
    notebook.cells[2].source = source
    assert len(list(of_every(notebook))) == 1


@pytest.mark.parametrize("source", ["profile = 'a'\nn = len('a')", "profile: str = 'a'"])
def test_a_planted_fault_among_the_parameters_is_seen(source: str) -> None:
    notebook = _plain()
    notebook.cells[1].source = source
    assert len(list(of_every(notebook))) == 1


def test_a_second_parameters_cell_is_seen() -> None:
    notebook = _plain()
    notebook.cells[2].metadata["tags"] = ["parameters"]
    assert any("2 parameters cells" in line for line in of_every(notebook))


def test_outputs_counts_and_doubled_ids_are_seen() -> None:
    notebook = _plain()
    notebook.cells[2].outputs = [new_output("stream", text="1")]
    notebook.cells[2].execution_count = 3
    notebook.cells[2]["id"] = notebook.cells[1]["id"]
    assert len(list(of_every(notebook))) == 3
