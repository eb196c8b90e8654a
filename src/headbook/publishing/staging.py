"""Lay out the book's source beside its output: texts, generated pages, executed notebooks."""

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

from headbook import paths
from headbook.book.foot import foot
from headbook.claims.scorecard import current
from headbook.plots.svg import without_plain
from headbook.publishing import contents, front, heads, pages
from headbook.publishing.citation import citation
from headbook.publishing.plain import plain
from headbook.types import COMPARED, UserError

IGNORED = shutil.ignore_patterns("_executed", "_generated", "_build", "__pycache__")


def copies(executed: Path) -> list[Path]:
    """The executed copies the table of contents names; UserError when one is missing."""
    found = [executed / f"{name}.ipynb" for name in contents.notebooks()]
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
    _write(source / "_toc.yml", contents.contents())
    config = yaml.safe_load((source / "_config.yml").read_text("utf-8"))
    context = {f"headbook_{name}": value for name, value in citation().items()}
    config["sphinx"]["config"]["html_context"].update(context)
    _write(source / "_config.yml", config)
    index = source / "intro.md"
    verdicts = current()
    index.write_text(front.filled(index.read_text("utf-8"), verdicts), encoding="utf-8")
    heads.write(source / "_static")
    pages.write(source / "_generated", executed, verdicts)
    shutil.copyfile(paths.REPOSITORY / "LICENSE", source / "_static" / "LICENSE.txt")
    (source / "_executed").mkdir()
    (source / "_static" / "notebooks").mkdir()
    for copy in executed:
        notebook = nbformat.read(copy, as_version=4)
        shown = [
            data
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if (data := output.get("data"))
        ]
        for data in shown:
            data.pop(COMPARED, None)  # for the runner, which has read it
        _offer(notebook, source / "_static" / "notebooks" / copy.name)
        for data in shown:  # a page of the book is trusted
            if "text/html" in data:
                data["text/html"] = without_plain(data["text/html"])
        _end(notebook, copy.stem, verdicts, source / "_static" / "results")
        nbformat.write(notebook, source / "_executed" / copy.name)


def _end(notebook: NotebookNode, name: str, verdicts: dict[str, Any], results: Path) -> None:
    """Add a page's claims and sources at its end, and its published tables to the downloads."""
    notebook.cells.append(nbformat.v4.new_markdown_cell(foot(name, verdicts), id="foot"))
    number = name.partition("_")[0]
    if (tables := paths.RESULTS / number).is_dir():
        shutil.copytree(tables, results / number)


def _offer(notebook: NotebookNode, download: Path) -> None:
    """Write what a reader downloads: the executed page, its texts in plain Markdown."""
    offered = deepcopy(notebook)
    for cell in offered.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)
    nbformat.write(offered, download)


def _write(file: Path, content: dict[str, Any]) -> None:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    file.write_text(text, encoding="utf-8")
