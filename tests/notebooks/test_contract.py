"""What a notebook template may hold, read from its text alone."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook import paths
from headbook.chapters.chapter import find
from headbook.publishing.templates import literals, read

# one that is not there, when there is none: a test that does not run could not fail
NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb")) or [paths.NOTEBOOKS / "no_notebooks.ipynb"]
MOST_CODE_LINES = 70
MOST_WORDS = 600
"""Of prose: four screens. Titles, tables, formulas and what is glued in as a whole do not count."""
DRAWING = {"pandas", "numpy"}
"""A notebook selects and draws; whatever measures or decides lives in the package."""
LOGIC = {
    ast.FunctionDef: "def",
    ast.AsyncFunctionDef: "async def",
    ast.ClassDef: "class",
    ast.While: "while",
    ast.With: "with",
    ast.Try: "try",
}
ABSOLUTE = re.compile(r"^(/|~|[A-Za-z]:[\\/])")


def complaints(notebook: NotebookNode) -> list[str]:
    """What a template breaks of the contract, one line each."""
    return [*_cells(notebook), *_parameters(notebook), *_code(notebook), *_prose(notebook)]


def _cells(notebook: NotebookNode) -> Iterator[str]:
    cells = notebook.cells
    if not cells or cells[0].cell_type != "markdown" or not cells[0].source.startswith("# "):
        yield "the first cell is not markdown with a title"
    ids = [cell.get("id") for cell in cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "cells without an id of their own"
    for number, cell in enumerate(cells, 1):
        if cell.get("outputs"):
            yield f"cell {number} has outputs"
        if cell.get("execution_count") is not None:
            yield f"cell {number} has an execution count"


def _prose(notebook: NotebookNode) -> Iterator[str]:
    count = words("\n".join(c.source for c in notebook.cells if c.cell_type == "markdown"))
    if count > MOST_WORDS:
        yield f"{count} words of prose, more than {MOST_WORDS}"


def words(markdown: str) -> int:
    """Words of prose; a number that is glued into a sentence is one."""
    for left_out in (r"```.*?```", r"\$\$.*?\$\$"):
        markdown = re.sub(left_out, "", markdown, flags=re.DOTALL)
    markdown = re.sub(r"\{[a-z:]+\}`[^`]*`|\$[^$\n]*\$", "x", markdown)
    lines = [line for line in markdown.splitlines() if not line.startswith(("#", ":", "|"))]
    return sum(len(line.split()) for line in lines)


def _parameters(notebook: NotebookNode) -> Iterator[str]:
    tagged = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1:
        yield f"{len(tagged)} parameters cells"
    for cell in tagged:
        try:
            declared = literals(cell.source)
        except (ValueError, SyntaxError) as error:
            yield f"parameters are not plain literals: {error}"
        else:
            if "profile" not in declared and not _is_chapter(notebook):
                yield "no parameter `profile`"


def _is_chapter(notebook: NotebookNode) -> bool:
    """Whether its page declares itself, with parameters of its own."""
    return any("open_page(" in cell.source for cell in notebook.cells)


def _code(notebook: NotebookNode) -> Iterator[str]:
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    if sum(len(source.splitlines()) for source in sources) > MOST_CODE_LINES:
        yield f"more than {MOST_CODE_LINES} lines of code"
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError as error:  # a magic or a shell line among others
            yield f"not plain Python: {error.text}"
        else:
            yield from _logic(tree)


def _logic(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if type(node) in LOGIC:
            yield f"{LOGIC[type(node)]} in a cell"
        if isinstance(node, ast.Constant) and ABSOLUTE.match(str(node.value)):
            yield f"absolute path {node.value}"
        for module in _imported(node):
            if module.split(".")[0] not in {"headbook", *DRAWING}:
                yield f"import of {module}"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "."] if isinstance(node, ast.ImportFrom) else []


def code_of(path: Path) -> list[str]:
    return [c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]


def opens(path: Path) -> str:
    """The call that checks the notebook's names against what its page reads."""
    return f"open_page({find(path.stem).number}, globals())"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_contract(path: Path) -> None:
    assert path.exists(), f"no notebooks in {paths.NOTEBOOKS}"
    assert re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem)
    assert not complaints(nbformat.read(path, as_version=4))
    assert sum(opens(path) in source for source in code_of(path)) == 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_parameters_are_those_of_the_page(path: Path) -> None:
    template, chapter = read(path), find(path.stem)
    assert chapter.parameters_from(template.parameters) == chapter.parameters()
    assert len(template.parameters) == len(fields(chapter.parameters))


def _plain() -> NotebookNode:
    parameters = new_code_cell('profile = "quick"', metadata={"tags": ["parameters"]})
    call = new_code_cell("from headbook import plots\n\nplots.heads(plots)")
    return new_notebook(cells=[new_markdown_cell("# Title"), parameters, call])


def test_a_plain_notebook_has_no_complaint() -> None:
    assert complaints(_plain()) == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(): pass",
        "class A: pass",
        "while True: 1",
        "with open('a'): 1",
        "try: 1\nexcept OSError: 2",
        "!ls",
        "%matplotlib inline",
        "open('/etc/hosts')",
        "folder = '~/runs'",
        "import torch",
        "from os import path",
        "1\n" * (MOST_CODE_LINES + 1),
    ],
)
def test_a_planted_fault_in_a_cell_is_seen(source: str) -> None:
    notebook = _plain()
    notebook.cells[2].source = source
    assert len(complaints(notebook)) == 1


@pytest.mark.parametrize(
    "source", ["size = 2", "profile = 'a'\nn = len('a')", "profile: str = 'a'"]
)
def test_a_planted_fault_among_the_parameters_is_seen(source: str) -> None:
    notebook = _plain()
    notebook.cells[1].source = source
    assert len(complaints(notebook)) == 1


def test_a_second_parameters_cell_is_seen() -> None:
    notebook = _plain()
    notebook.cells[2].metadata["tags"] = ["parameters"]
    assert any("2 parameters cells" in line for line in complaints(notebook))


def test_outputs_counts_and_doubled_ids_are_seen() -> None:
    notebook = _plain()
    notebook.cells[2].outputs = [new_output("stream", text="1")]
    notebook.cells[2].execution_count = 3
    notebook.cells[2]["id"] = notebook.cells[1]["id"]
    assert len(complaints(notebook)) == 3


def test_words_of_prose_are_counted_and_more_than_four_screens_of_them_are_seen() -> None:
    page = (
        "# A title\n\nOf {glue:text}`heads` heads, $a_{ij} + b$ is\n\n$$\na b c\n$$\n\n| a | b |\n"
    )
    assert words(page + "\n```{glue} map\n```\n:::{note}\ntwo more\n:::\n") == 7
    notebook = _plain()
    notebook.cells.append(new_markdown_cell("word " * (MOST_WORDS + 1)))
    assert [each for each in complaints(notebook) if "words of prose" in each]
