"""Take out of an executed notebook what differs between two runs of the same page."""

import re

from nbformat import NotebookNode

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
CURSOR = re.compile(r"\x1b\[\d*[A-DK]")
"""Moves of the cursor between bars."""
PROGRESS = re.compile(r"\r|\d+%\||waiting for another process")


def tidy(notebook: NotebookNode) -> NotebookNode:
    """Remove, in place, times, addresses and progress bars; return the notebook."""
    notebook.metadata.pop("papermill", None)
    for cell in notebook.cells:
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
            cell.metadata.tags = [*cell.metadata.tags, "remove-cell"]
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if not _is_progress(each)]
            for data in (output.get("data", {}) for output in cell.outputs):
                data |= {
                    mime: ADDRESS.sub("", text)
                    for mime, text in data.items()
                    if mime.startswith("text/")
                }
    return notebook


def _is_progress(output: NotebookNode) -> bool:
    """Drop the lines of progress bars, which say how busy the machine was; warnings stay."""
    if output.output_type != "stream" or output.name != "stderr":
        return False
    text = CURSOR.sub("", output.text)
    lines = [line for line in text.split("\n") if not PROGRESS.search(line)]
    output.text = "\n".join(lines).lstrip("\n")
    return not output.text.strip()
