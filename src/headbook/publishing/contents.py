"""The table of contents: the book's frame (`_toc.yml`), filled with the pages there are."""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from headbook import paths

EXECUTED = "_executed/"


def contents() -> dict[str, Any]:
    """The table of contents as Sphinx reads it: every glob replaced by the notebooks it finds.

    A part whose globs find nothing is left out, with the pages that introduce it.
    """
    frame = yaml.safe_load((paths.BOOK / "_toc.yml").read_text("utf-8"))
    if "parts" not in frame:
        return frame
    return frame | {"parts": [part for each in frame["parts"] if (part := _filled(each))]}


def pages() -> list[str]:
    """Every page of the table of contents, without suffix, in reading order."""
    return list(_files(contents()))


def notebooks() -> list[str]:
    """Names of the notebooks whose executed copies the book shows, in reading order."""
    return [page.removeprefix(EXECUTED) for page in pages() if page.startswith(EXECUTED)]


def record_of(copy: Path) -> Path:
    """File with the parameters and run time of an executed copy."""
    return copy.with_suffix(".run.json")


def _filled(part: dict[str, Any]) -> dict[str, Any] | None:
    chapters, found = [], []
    for entry in part["chapters"]:
        names = list(_named(entry["glob"])) if "glob" in entry else []
        found += names
        chapters += [{"file": name} for name in names] if "glob" in entry else [entry]
    empty = not found and any("glob" in entry for entry in part["chapters"])
    return None if empty else part | {"chapters": chapters}


def _named(pattern: str) -> Iterator[str]:
    names = sorted(path.stem for path in paths.NOTEBOOKS.glob("[!.]*.ipynb"))
    yield from (f"{EXECUTED}{name}" for name in names if fnmatch(f"{EXECUTED}{name}", pattern))


def _files(entry: dict[str, Any]) -> Iterator[str]:
    if page := entry.get("root") or entry.get("file"):
        yield page
    for key in ("parts", "chapters", "sections"):
        for below in entry.get(key, []):
            yield from _files(below)
