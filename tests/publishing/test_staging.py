"""The book's source: banners under titles, alt text where the builder looks for it."""

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook.publishing import staging


def _notebook(profile: str, **given: object) -> NotebookNode:
    made = {"profile": profile, "parameters": {"profile": profile, **given}}
    return new_notebook(cells=[new_markdown_cell("# T\n\nText")], metadata={"headbook": made})


@pytest.mark.parametrize("profile", ["smoke", "quick"])
def test_the_small_profiles_say_they_are_no_evidence(profile: str) -> None:
    text = staging.banner(_notebook(profile))
    assert f"`{profile}`" in text
    assert "no evidence about real languages" in text
    assert "page 02" in text


def test_smoke_says_its_numbers_mean_nothing() -> None:
    assert "numbers mean nothing" in staging.banner(_notebook("smoke"))


def test_a_real_corpus_is_not_called_invented() -> None:
    text = staging.banner(_notebook("quick", corpus="tatoeba-ru"))
    assert "no evidence" not in text
    assert "`corpus = 'tatoeba-ru'`" in text
    assert "no evidence" not in staging.banner(_notebook("laptop"))


def test_the_banner_stands_under_the_title() -> None:
    lines = staging._dressed(_notebook("quick"), "10_page").cells[0].source.split("\n")
    assert lines[0] == "# 10 T"
    assert lines[2].startswith(":::{admonition}")
    assert lines[-1] == "Text"


def test_a_page_that_has_its_number_keeps_it() -> None:
    notebook = _notebook("quick")
    notebook.cells[0].source = "# 12 T"
    assert staging._dressed(notebook, "10_page").cells[0].source.startswith("# 12 T\n")


def test_alt_text_of_an_output_reaches_the_cell() -> None:
    notebook = _notebook("quick")
    output = new_output("display_data", {"image/png": ""}, metadata={"image/png": {"alt": "a b"}})
    notebook.cells.append(new_code_cell("x", outputs=[output]))
    cell = staging._dressed(notebook, "10_page").cells[1]
    assert cell.metadata["mystnb"] == {"image": {"alt": "a b"}}
    nbformat.validate(notebook)
