"""What differs between two runs of a page is taken out, and nothing else."""

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook, new_output

from headbook.publishing.tidy import tidy


def _tidied(*outputs: NotebookNode) -> list[NotebookNode]:
    cell = new_code_cell("x", outputs=list(outputs))
    return tidy(new_notebook(cells=[cell]), "10_page").cells[0].outputs


def test_times_of_the_run_are_removed() -> None:
    cell = new_code_cell("x", metadata={"papermill": {"duration": 1}, "execution": {}, "tags": []})
    notebook = new_notebook(
        cells=[cell], metadata={"papermill": {}, "language_info": {"name": "python"}}
    )
    assert tidy(notebook, "10_page").cells[0].metadata == {"tags": []}
    assert set(notebook.metadata) == {"language_info"}


def test_progress_is_dropped_and_a_warning_beside_it_is_kept() -> None:
    text = "\r  0%|   | 0/3\r100%|###| 3/3 [00:01]\nWarning: a rare thing\n"
    (output,) = _tidied(new_output("stream", name="stderr", text=text))
    assert output.text == "Warning: a rare thing\n"
    assert _tidied(new_output("stream", name="stderr", text="\r100%|##| 3/3\n")) == []


def test_addresses_go_and_random_ids_become_steady_ones() -> None:
    first, second = "2c596221-3408-4b68-ad18-f6b6558da09f", "ffffffff-3408-4b68-ad18-f6b6558da09f"
    page = '<div id="{0}"></div><div id="{1}"></div>plot("{0}")'
    one, other = (
        _tidied(
            new_output(
                "display_data",
                data={"text/html": page.format(*ids), "text/plain": f"<A at {address}>"},
            )
        )[0].data
        for ids, address in [((first, second), "0x7f01"), ((second, first), "0x7fab")]
    )
    assert one == other
    assert one["text/plain"] == "<A>"
    assert len(set(one["text/html"].split('"')[1::2])) == 2
