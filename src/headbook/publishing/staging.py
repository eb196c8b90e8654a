"""Lay out the book's source beside its output: texts, generated pages, executed notebooks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

from headbook import paths
from headbook.publishing import pages
from headbook.types import UserError

CONTROL = (
    "It ran on the controlled corpus, a small language with a grammar written for this book, in "
    "which every relation and rare word is known. Its numbers are no evidence about real "
    "languages; the published runs are. Whether the measures work is tested on page 02."
)
BANNERS = {
    "smoke": "This page was executed at profile `smoke`, which only tests that it runs: its "
    f"numbers mean nothing. {CONTROL}",
    "quick": f"This page was executed at profile `quick`. {CONTROL}",
}
PLOTLY = "application/vnd.plotly.v1+json"
IGNORED = shutil.ignore_patterns("_executed", "_generated", "_build", "__pycache__")


def copies(executed: Path) -> list[Path]:
    """The executed copies the table of contents names; UserError when one is missing."""
    named = [Path(file).name for file in toc() if file.startswith("_executed/")]
    found = [executed / f"{name}.ipynb" for name in named]
    missing = [copy.stem for copy in found if not copy.exists()]
    if missing:
        raise UserError(
            f"the book has no executed copy of {', '.join(missing)} in {executed}: "
            "make them with headbook run"
        )
    return found


def stage(source: Path, executed: list[Path]) -> None:
    """Write all that Sphinx is to read into `source`, a folder that is not there yet."""
    shutil.copytree(paths.BOOK, source, ignore=IGNORED)
    pages.write(source / "_generated", executed)
    (source / "_executed").mkdir()
    for copy in executed:
        notebook = nbformat.read(copy, as_version=4)
        nbformat.write(_dressed(notebook), source / "_executed" / copy.name)


def toc() -> list[str]:
    """Every page of the table of contents, without suffix, in reading order."""
    return list(_files(yaml.safe_load((paths.BOOK / "_toc.yml").read_text("utf-8"))))


def _files(entry: dict) -> Iterator[str]:
    if page := entry.get("root") or entry.get("file"):
        yield page
    for key in ("parts", "chapters", "sections"):
        for below in entry.get(key, []):
            yield from _files(below)


def _dressed(notebook: NotebookNode) -> NotebookNode:
    """The notebook with its banner and with the alt text of its figures where myst-nb looks."""
    title = notebook.cells[0]
    heading, _, rest = title.source.partition("\n")
    title.source = f"{heading}\n\n{banner(notebook)}\n{rest}"
    for cell in notebook.cells:
        for alt in _alternatives(cell):
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
        for output in cell.get("outputs", []):
            # Jupyter's own form of a figure; the book shows the HTML beside it.
            output.get("data", {}).pop(PLOTLY, None)
    return notebook


def banner(notebook: NotebookNode) -> str:
    """Which profile and parameters made the page, as an admonition in MyST.

    A chapter says so itself, below its fold.
    """
    made = notebook.metadata.get("headbook", {})
    if made.get("chapter"):
        return ""
    profile = made.get("profile", "unknown")
    given = {k: v for k, v in made.get("parameters", {}).items() if k != "profile"}
    controlled = str(given.get("corpus", "controlled")).startswith("controlled")
    text = f"This page was executed at profile `{profile}`."
    if controlled:
        text = BANNERS.get(profile, text)
    if given:
        text += " Set by hand: " + ", ".join(f"`{k} = {v!r}`" for k, v in given.items()) + "."
    return f":::{{admonition}} How this page was made\n:class: note headbook-profile\n{text}\n:::\n"


def _alternatives(cell: NotebookNode) -> Iterator[str]:
    for output in cell.get("outputs", []):
        for described in output.get("metadata", {}).values():
            if isinstance(described, dict) and "alt" in described:
                yield described["alt"]
