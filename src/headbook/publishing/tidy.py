"""Take out of an executed notebook what differs between two runs of the same page."""

import re
import uuid

from nbformat import NotebookNode

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
RANDOM_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
CURSOR = re.compile(r"\x1b\[\d*[A-DK]")
"""Moves of the cursor between bars."""
PROGRESS = re.compile(r"\r|\d+%\||waiting for another process")


def tidy(notebook: NotebookNode, name: str) -> NotebookNode:
    """Remove, in place, times, addresses, random ids and progress bars; return the notebook."""
    notebook.metadata.pop("papermill", None)
    for position, cell in enumerate(notebook.cells):
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell["id"] = "injected-parameters"
            cell.metadata.tags = [*cell.metadata.tags, "remove-cell"]
        if cell.cell_type == "code":
            cell.outputs = _outputs(cell.outputs, f"{name}-{position}")
    return notebook


def _outputs(outputs: list[NotebookNode], seed: str) -> list[NotebookNode]:
    kept = [_without_progress(output) for output in outputs]
    kept = [output for output in kept if output is not None]
    for output in kept:
        for mime, content in output.get("data", {}).items():
            if isinstance(content, str) and mime.startswith("text/"):
                output.data[mime] = _steady(content, seed)
    return kept


def _without_progress(output: NotebookNode) -> NotebookNode | None:
    """Drop the lines of progress bars, which say how busy the machine was; warnings stay."""
    if output.output_type != "stream" or output.name != "stderr":
        return output
    text = CURSOR.sub("", output.text)
    lines = [line for line in text.split("\n") if not PROGRESS.search(line)]
    output.text = "\n".join(lines).lstrip("\n")
    return output if output.text.strip() else None


def _steady(text: str, seed: str) -> str:
    """Replace addresses and random ids by ones that stay."""

    def replacement(match: re.Match[str]) -> str:
        order = seen.setdefault(match[0], len(seen))
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}-{order}"))

    seen: dict[str, int] = {}
    return RANDOM_ID.sub(replacement, ADDRESS.sub("", text))
