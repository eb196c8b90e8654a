"""The table of contents: the book's frame (`_toc.yml`), filled with the pages there are."""

import fnmatch
from pathlib import Path
from typing import Any

import yaml

from headbook import paths

EXECUTED = "_executed/"


def contents() -> dict[str, Any]:
    """The table of contents as Sphinx reads it: every glob replaced by the notebooks it finds."""
    frame = yaml.safe_load((paths.BOOK / "_toc.yml").read_text("utf-8"))
    copies = sorted(f"{EXECUTED}{path.stem}" for path in paths.NOTEBOOKS.glob("[!.]*.ipynb"))
    for part in frame.get("parts", []):
        named = (
            fnmatch.filter(copies, entry["glob"]) if "glob" in entry else [entry["file"]]
            for entry in part["chapters"]
        )
        part["chapters"] = [{"file": name} for names in named for name in names]
    return frame


def pages() -> list[str]:
    """Every page of the table of contents, without suffix, in reading order."""
    frame = contents()
    parts = frame.get("parts", [frame])
    return [frame["root"], *(each["file"] for part in parts for each in part.get("chapters", []))]


def notebooks() -> list[str]:
    """Names of the notebooks whose executed copies the book shows, in reading order."""
    return [page.removeprefix(EXECUTED) for page in pages() if page.startswith(EXECUTED)]


def record_of(copy: Path) -> Path:
    """File with the parameters and run time of an executed copy."""
    return copy.with_suffix(".run.json")
