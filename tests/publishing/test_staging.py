"""The book's source: numbers in titles, alt text where the builder looks for it."""

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook.publishing import staging


def _notebook() -> NotebookNode:
    return new_notebook(cells=[new_markdown_cell("# T\n\nText")])


def test_a_page_gets_its_number() -> None:
    assert staging._dressed(_notebook(), "10_page").cells[0].source == "# 10 T\n\nText"


def test_a_page_that_has_its_number_keeps_it() -> None:
    notebook = _notebook()
    notebook.cells[0].source = "# 12 T"
    assert staging._dressed(notebook, "10_page").cells[0].source.startswith("# 12 T\n")


def test_alt_text_of_an_output_reaches_the_cell() -> None:
    notebook = _notebook()
    output = new_output("display_data", {"image/png": ""}, metadata={"image/png": {"alt": "a b"}})
    notebook.cells.append(new_code_cell("x", outputs=[output]))
    cell = staging._dressed(notebook, "10_page").cells[1]
    assert cell.metadata["mystnb"] == {"image": {"alt": "a b"}}
    nbformat.validate(notebook)
