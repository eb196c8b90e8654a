"""The contract of a page that measures itself, on those that do and on notebooks made here."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from page_contract import MEASURED, digits, of_every, of_page, style, words

from headbook import paths

PAGES = sorted(paths.NOTEBOOKS.glob("*.ipynb"))

TITLE = """\
# 13 Do heads follow syntax?

Voita et al. {cite}`voita2019` found heads that do, in 2019 (Table 1, section 5.2).

:::{admonition} Answer
:class: answer
**Partly.** L6H5 finds {n}`66 % [63, 69] <best[a; b].value:%ci>` of objects.
:::"""
MEASURING = f"## {MEASURED}\n\nThe share of words where $a_{{ij}} > 0.5$, `x[2]` of layer 6:"
MEASURE = "points = hb.attention(model).argmax(-1)\nassert points.shape == (5,)"


def made() -> NotebookNode:
    cells = [
        new_markdown_cell(TITLE),
        new_code_cell('model = "minilm"', metadata={"tags": ["parameters"]}),
        new_code_cell("import headbook as hb", metadata={"tags": ["remove-cell"]}),
        new_code_cell('hb.view(model, "The clerics demanded talks.", ["L6H5"])'),
        new_markdown_cell(MEASURING),
        new_code_cell(MEASURE),
        new_code_cell("summary = points", metadata={"tags": ["summary", "hide-input"]}),
        new_markdown_cell("## Try it\n\n" + "word " * 600),
    ]
    return new_notebook(cells=cells)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_keeps_the_contract(path: Path) -> None:
    page = nbformat.read(path, as_version=4)
    assert [*of_every(page), *of_page(page)] == []


def test_every_page_is_as_ruff_would_have_it() -> None:
    assert style(*PAGES) == []


def test_a_page_as_it_should_be_has_no_complaint(tmp_path: Path) -> None:
    assert [*of_every(made()), *of_page(made())] == []
    nbformat.write(made(), tmp_path / "13_made.ipynb")
    assert style(tmp_path / "13_made.ipynb") == []


def cell(place: int, source: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[place].source = source

    return change


def added(place: int, source: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[place].source += source

    return change


def tagged(place: int, *tags: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        notebook.cells[place].metadata["tags"] = list(tags)

    return change


def many_cells(notebook: NotebookNode) -> None:
    notebook.cells += [new_code_cell("x = 1\n" * 15) for _ in range(9)]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (tagged(1, "parameters", "hide-input"), "parameters are hidden"),
        (added(5, "\nx = 1" * 14), "a cell of 16 lines"),
        (many_cells, "visible lines"),
        (added(2, "\nimport a" * 15), "16 hidden lines"),
        (added(2, "\nx = hb.load(1)"), "more than import"),
        (tagged(6, "summary"), "not folded"),
        (added(6, "\nx = 1" * 40), "a summary of 41 lines"),
        (added(4, " word" * 500), "words of prose"),
        (cell(0, TITLE.replace("Partly", "word " * 60)), "words in the answer"),
        (cell(0, TITLE.replace("Partly", "{n}`1 <a[b].c>` " * 3)), "4 numbers in the answer"),
        (cell(0, TITLE.replace("} Answer", "} Result")), "0 boxes"),
        (cell(3, "hb.load(model)\n"), "no phenomenon"),
        (cell(4, "## Method"), MEASURED),
        (cell(5, "points = 1\n"), "no visible assert"),
        (added(0, "\n\nIn 66 % of cases."), "'66'"),
    ],
)
def test_a_planted_fault_is_seen(fault: Callable[[NotebookNode], None], said: str) -> None:
    notebook = made()
    fault(notebook)
    assert any(said in each for each in of_page(notebook))


def test_what_ruff_says_of_cells_is_seen(tmp_path: Path) -> None:
    notebook, path = made(), tmp_path / "13_made.ipynb"
    cell(6, f"import os\nx=1  # {'a' * 80}")(notebook)
    nbformat.write(notebook, path)
    (checked, formatted) = style(path)
    assert "F401" in checked and "E501" in checked and formatted.startswith("ruff format")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (cell(5, "!ls"), "not plain Python"),
        (cell(5, "f = '~/a'"), "absolute path"),
        (cell(1, "n = len('a')"), "not plain literals"),
        (tagged(5, "parameters"), "2 parameters cells"),
        (cell(0, "Text"), "not markdown with a title"),
    ],
)
def test_a_planted_fault_of_any_notebook_is_seen(
    fault: Callable[[NotebookNode], None], said: str
) -> None:
    notebook = made()
    fault(notebook)
    assert any(said in each for each in of_every(notebook))


def test_outputs_counts_and_doubled_ids_are_seen() -> None:
    notebook = made()
    notebook.cells[5].outputs = [new_output("stream", text="1")]
    notebook.cells[5].execution_count = 3
    notebook.cells[5]["id"] = notebook.cells[1]["id"]
    assert len(list(of_every(notebook))) == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("In 66 % of 1,204 cases, [63, 69].", ["66", "1,204", "63,", "69"]),
        (":::{dropdown} More\n12\n:::", ["12"]),
        ("{n}`66 % [63, 69] <best[a].b:%ci>`, {cite}`voita2019`, {claim}`voita-f1: mixed`", []),
        ("$x_1 = 2$ and\n\n$$\ny = 3\n$$\n\n`x[3]`\n\n```python\n4\n```\n", []),
        ("In 2019 by Voita et al. (2019), [a page](../13.html), <https://a.b/12>", []),
        ("MiniLM-L6, L6H5, mixture-fr-256@2048, page13.py, WMT14 and F1", []),
        ("Figure 3, Tables 1 and 2, section 5.2, layers 1 to 3, head 5, seed 0", []),
        ("# 13 Do heads follow syntax?\n\n1. First\n2. second", []),
    ],
)
def test_digits_in_prose_are_found_unless_they_name_something(text: str, found: list[str]) -> None:
    assert digits(text) == found


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("# A title\n\nOf {n}`66 % <a[b].c:%>` heads, $a_{ij} + b$ is `x + y`.", 6),
        ("$$\na b c\n$$\n\n| a | b |\n\n```python\ncode\n```", 0),
        (":::{note}\n:class: tip\ntwo more\n:::\n\n:::{dropdown} Folded\nnot these\n:::", 2),
        ("## Limits\n\nNor these.\n\n## Last\n\none", 1),
    ],
)
def test_words_of_prose_are_counted(text: str, count: int) -> None:
    assert words(text) == count
