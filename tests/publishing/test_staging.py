"""The book's source: numbers in titles, alt text where the builder looks for it."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook import tables
from headbook.claims.scorecard import current
from headbook.publishing import staging


def _notebook() -> NotebookNode:
    return new_notebook(cells=[new_markdown_cell("# T\n\nText")])


def test_a_page_gets_its_number() -> None:
    assert staging._dressed(_notebook(), "10_page").cells[0].source == "# 10 T\n\nText"


def test_alt_text_of_an_output_reaches_the_cell() -> None:
    notebook = _notebook()
    output = new_output("display_data", {"image/png": ""}, metadata={"image/png": {"alt": "a b"}})
    notebook.cells.append(new_code_cell("x", outputs=[output]))
    cell = staging._dressed(notebook, "10_page").cells[1]
    assert cell.metadata["mystnb"] == {"image": {"alt": "a b"}}
    nbformat.validate(notebook)


def test_a_page_that_measures_itself_is_offered_executed_with_plain_numbers(tmp_path: Path) -> None:
    notebook = _notebook()
    notebook.cells[0].source += " {n}`66 % <best[a].b:%>`"
    output = new_output("display_data", {"image/png": "AA=="})
    notebook.cells.append(new_code_cell("x", outputs=[output], execution_count=1))
    staging._offer(notebook, tmp_path / "99_page.ipynb")
    offered = nbformat.read(tmp_path / "99_page.ipynb", as_version=4)
    assert offered.cells[0].source == "# T\n\nText 66 %"
    assert offered.cells[1].outputs == [output] and offered.cells[1].execution_count == 1
    assert "{n}" in notebook.cells[0].source  # the page itself keeps its references


def test_a_page_that_measures_itself_ends_in_its_claims_and_sources(tmp_path: Path) -> None:
    verdicts, notebook = current(), _notebook()
    staging._end(notebook, "13_syntactic_heads", verdicts, tmp_path)
    end = notebook.cells[-1].source
    mine = [each.claim for each in verdicts.values() if each.claim.study == "13_syntactic_heads"]
    assert mine and all(f"#{claim.id}" in end for claim in mine)
    for table, entry in tables.entries(13).items():
        assert f"13/{table}.csv" in end and (tmp_path / "13" / f"{table}.csv").is_file()
        assert all(made["commit"].rstrip("+") in end for made in entry["made"])
