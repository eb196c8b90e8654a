"""The contract of a page that measures itself, on those that do and on notebooks made here."""

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


def test_every_page_is_as_ruff_would_have_it(tmp_path: Path) -> None:
    assert style(*PAGES) == []
    notebook, path = made(), tmp_path / "13_made.ipynb"
    notebook.cells[6].source = f"import os\nx=1  # {'a' * 80}"
    nbformat.write(notebook, path)
    (checked, formatted) = style(path)
    assert "F401" in checked and "E501" in checked and formatted.startswith("ruff format")


def test_a_page_as_it_should_be_has_no_complaint() -> None:
    assert [*of_every(made()), *of_page(made())] == []


@pytest.mark.parametrize(
    ("place", "changed", "said"),
    [
        (0, {"source": f"{TITLE}\n\nIn 66 % of cases."}, "'66'"),
        (0, {"source": TITLE.replace("Partly", "word " * 60)}, "words in the answer"),
        (0, {"source": TITLE.replace("Partly", "{n}`1 <a[b].c>` " * 3)}, "4 numbers in the answer"),
        (0, {"source": TITLE.replace("} Answer", "} Result")}, "one box"),
        (1, {"source": "n = len('a')"}, "not plain literals"),
        (1, {"metadata": {"tags": ["parameters", "hide-input"]}}, "parameters are hidden"),
        (2, {"source": "import a\n" * 16}, "16 hidden lines"),
        (2, {"source": "x = hb.load(1)"}, "more than import"),
        (3, {"source": "hb.load(model)"}, "no phenomenon"),
        (4, {"source": "## Method"}, MEASURED),
        (4, {"source": MEASURING + " word" * 500}, "words of prose"),
        (5, {"source": "x = 1\n" * 16}, "16 lines in a visible cell"),
        (5, {"source": "x = 1\n" * 131}, "visible lines"),
        (5, {"source": "points = 1"}, "no visible assert"),
        (5, {"source": "!ls"}, "not plain Python"),
        (5, {"source": "f = '~/a'"}, "absolute path"),
        (5, {"metadata": {"tags": ["parameters"]}}, "2 parameters cells"),
        (5, {"outputs": [new_output("stream", text="1")]}, "was executed"),
        (5, {"execution_count": 3}, "was executed"),
        (6, {"source": "x = 1\n" * 41}, "41 lines of summary"),
        (6, {"metadata": {"tags": ["summary"]}}, "not folded"),
    ],
)
def test_a_planted_fault_is_seen(place: int, changed: dict, said: str) -> None:
    notebook = made()
    notebook.cells[place].update(changed)
    assert any(said in each for each in [*of_every(notebook), *of_page(notebook)])


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
