"""Lay out the book's source beside its output: texts, generated pages, executed notebooks."""

import re
import shutil
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import nbformat
import yaml
from nbformat import NotebookNode

from headbook import paths
from headbook.publishing import contents, front, pages
from headbook.publishing.citation import citation
from headbook.types import COMPARED, UserError

IGNORED = shutil.ignore_patterns("_executed", "_generated", "_build", "__pycache__")
NUMBERED = re.compile(r"# \d\d ")


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
    from headbook.claims.scorecard import current
    from headbook.publishing import heads  # with pandas, which is needed late

    shutil.copytree(paths.BOOK, source, ignore=IGNORED)
    _write(source / "_toc.yml", contents.contents())
    config = yaml.safe_load((source / "_config.yml").read_text("utf-8"))
    config["sphinx"]["config"].setdefault("html_context", {}).update(citation().context())
    _write(source / "_config.yml", config)
    index = source / "intro.md"
    index.write_text(front.filled(index.read_text("utf-8")), encoding="utf-8")
    heads.write(source / "_static")
    pages.write(source / "_generated", executed)
    shutil.copyfile(paths.REPOSITORY / "LICENSE", source / "_static" / "LICENSE.txt")
    (source / "_executed").mkdir()
    (source / "_static" / "notebooks").mkdir()
    verdicts = current()
    for copy in executed:
        notebook = _dressed(nbformat.read(copy, as_version=4), copy.stem)
        page = source / "_executed" / copy.name
        _offer(notebook, source / "_static" / "notebooks" / copy.name)
        _trusted(notebook)
        _end(notebook, copy.stem, verdicts, source / "_static" / "results")
        nbformat.write(notebook, page)


def _end(notebook: NotebookNode, name: str, verdicts: dict[str, Any], results: Path) -> None:
    """Add a page's claims and sources at its end, and its published tables to the downloads."""
    from headbook.book.foot import foot

    notebook.cells.append(nbformat.v4.new_markdown_cell(foot(name, verdicts), id="foot"))
    number = name.partition("_")[0]
    if (tables := paths.RESULTS / number).is_dir():
        shutil.copytree(tables, results / number)


def _offer(notebook: NotebookNode, download: Path) -> None:
    """Write what a reader downloads: the executed page, its texts in plain Markdown."""
    from headbook.publishing.plain import plain  # with pandas, which is needed late

    offered = deepcopy(notebook)
    for cell in offered.cells:
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source)
    nbformat.write(offered, download)


def _trusted(notebook: NotebookNode) -> None:
    """Leave out what drawings have for a notebook that is not trusted."""
    from headbook.plots.svg import without_plain  # with matplotlib, which is needed late

    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if shown := output.get("data", {}).get("text/html"):
                output["data"]["text/html"] = without_plain(shown)


def _write(file: Path, content: dict[str, Any]) -> None:
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    file.write_text(text, encoding="utf-8")


def _dressed(notebook: NotebookNode, name: str) -> NotebookNode:
    """The notebook with its number, and alt text of its figures where myst-nb looks."""
    title = notebook.cells[0]
    heading, _, rest = title.source.partition("\n")
    if not NUMBERED.match(heading):
        heading = f"# {name.partition('_')[0]} {heading.removeprefix('# ')}"
    title.source = f"{heading}\n{rest}"
    for cell in notebook.cells:
        for alt in _alternatives(cell):
            cell.metadata.setdefault("mystnb", {})["image"] = {"alt": alt}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(COMPARED, None)  # for the runner, which has read it
    return notebook


def _alternatives(cell: NotebookNode) -> Iterator[str]:
    for output in cell.get("outputs", []):
        for described in output.get("metadata", {}).values():
            if isinstance(described, dict) and "alt" in described:
                yield described["alt"]
