"""Published tables as files: digests checked on reading; written under a lock, never half.

`data/results/13/best.csv` is a table of page 13. The record beside it, `run.json`, has an entry for
each table: SHA-256, number of rows, columns of text, key columns, and what made its rows.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from headbook import paths
from headbook.types import UserError

DIGITS = 5
"""Significant digits of a published number: the intervals of every measure are wider."""
RECORD = "run.json"
ABSENT = ""
"""Stands in `replaces` for the digest of a table that did not exist before."""


def folder(page: str | int, root: Path | None = None) -> Path:
    """The folder of a page's tables, `data/results/13` for 13, "13" and "13_syntactic_heads"."""
    number = str(page).partition("_")[0]
    return (root or paths.RESULTS) / (f"{int(number):02d}" if number.isdigit() else number)


def record(page: str | int, root: Path | None = None) -> dict[str, Any]:
    """A page's `run.json`, to be read and not changed; empty where there is none."""
    file = folder(page, root) / RECORD
    return _record(file, file.stat().st_mtime_ns) if file.exists() else {}


@lru_cache(maxsize=256)
def _record(file: Path, _changed: int) -> dict[str, Any]:
    return json.loads(file.read_text("utf-8"))


def entries(page: str | int, root: Path | None = None) -> dict[str, dict[str, Any]]:
    """What the record says of each table, by name."""
    return record(page, root).get("tables", {})


def content(page: str | int, name: str, root: Path | None = None) -> str:
    """A table's text; UserError where it is missing, or is not the one that was recorded."""
    where = folder(page, root)
    file, entry = where / f"{name}.csv", entries(page, root).get(name)
    if entry is None or (entry.get("replaces") == ABSENT and not file.exists()):
        known = ", ".join(entries(page, root)) or "none"
        raise UserError(f"{where.name}/{name} is not published; page {where.name} has: {known}")
    if not file.exists():
        raise UserError(f"data/results/{where.name}/{name}.csv is missing: restore it from git")
    text = file.read_bytes().decode("utf-8")
    if digest(text) not in (entry["sha256"], entry.get("replaces")):
        raise UserError(
            f"data/results/{where.name}/{name}.csv is not the table that its {RECORD} records "
            f"(SHA-256 differs): restore both from git, or publish page {where.name} again"
        )
    return text


def cells(page: str | int, name: str, root: Path | None = None) -> pd.DataFrame:
    """A table with every cell as it is written."""
    return read_cells(content(page, name, root))


def typed(page: str | int, name: str, root: Path | None = None) -> pd.DataFrame:
    """A table with its types; an empty cell is NaN among numbers and "" among texts."""
    text = content(page, name, root)
    words = tuple(entries(page, root)[name].get("text", ()))
    return _typed(text, words).copy()


def check(root: Path | None = None) -> int:
    """Number of published rows; UserError for a table that differs from its digest or has none."""
    pages = [file.parent.name for file in sorted((root or paths.RESULTS).glob(f"*/{RECORD}"))]
    for page in pages:
        listed = entries(page, root)
        if stray := {file.stem for file in folder(page, root).glob("*.csv")} - listed.keys():
            raise UserError(
                f"data/results/{page}/{min(stray)}.csv is not in its {RECORD}: remove it, or "
                f"publish page {page} again"
            )
        for name in listed:
            content(page, name, root)
    return sum(rows(page, root) for page in pages)


def rows(page: str | int, root: Path | None = None) -> int:
    """Number of published rows of a page, over all its tables."""
    return sum(entry["rows"] for entry in entries(page, root).values())


def csv(frame: pd.DataFrame) -> str:
    """A table as it is published: numbers with DIGITS digits, whole ones as they are."""
    whole = [
        name for name in frame.select_dtypes("float")
        if (frame[name].dropna().mod(1) == 0).all() and frame[name].abs().max() < 2**53
    ]  # fmt: skip
    frame = frame.astype(dict.fromkeys(whole, "Int64"))
    return frame.to_csv(index=False, float_format=f"%.{DIGITS}g", lineterminator="\n")


def read_cells(text: str) -> pd.DataFrame:
    """Every cell of a CSV as it is written."""
    return pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)


def text_columns(frame: pd.DataFrame) -> list[str]:
    """Columns that are neither numbers nor truth values."""
    return list(frame.select_dtypes(exclude=["number", "bool"]).columns)


def digest(data: str | bytes) -> str:
    """SHA-256 of a table's text or of a file's bytes, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


# ------------------------------------------------------------------ writing


@contextmanager
def locked(page: str | int) -> Iterator[None]:
    """Within, no other process publishes tables of this page."""
    where = folder(page)
    where.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(where.parent / f".{where.name}.lock"):
        yield


def replace(page: str | int, name: str, text: str, entry: Mapping[str, Any]) -> Path:
    """Writes a table and its entry of the record; to be called within `locked`. Returns the folder.

    The record comes first and admits both digests, then the table is renamed into its place: a kill
    leaves the old or the new one.
    """
    where, run = folder(page), record(page)
    where.mkdir(exist_ok=True)
    before = run.get("tables", {})
    done = {**entry, "sha256": digest(text), "rows": len(read_cells(text))}
    changing = {**done, "replaces": before.get(name, {}).get("sha256", ABSENT)}
    for file, written in (
        (RECORD, _json({**run, "tables": {**before, name: changing}}) + "\n"),
        (f"{name}.csv", text),
        (RECORD, _json({**run, "tables": {**before, name: done}}) + "\n"),
    ):
        _write(where / file, written)
    return where


def _write(file: Path, text: str) -> None:
    aside = file.with_name(f".{file.name}.partial")
    with aside.open("w", encoding="utf-8", newline="") as written:
        written.write(text)
        written.flush()
        os.fsync(written.fileno())
    os.replace(aside, file)


def _json(value: Any, depth: int = 0) -> str:
    """JSON in which each field of a table is a line, and each run that made rows of it."""
    inside = " " * (depth + 1)
    if isinstance(value, Mapping) and value and depth < 3:
        fields = [f"{inside}{_line(name)}: {_json(value[name], depth + 1)}" for name in value]
        return "{\n" + ",\n".join(fields) + f"\n{' ' * depth}}}"
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return "[\n" + ",\n".join(inside + _line(each) for each in value) + f"\n{inside}]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# ------------------------------------------------------------------ reading once


@lru_cache(maxsize=64)
def _typed(text: str, words: Sequence[str]) -> pd.DataFrame:
    named = pd.read_csv(StringIO(text), nrows=0).columns
    empty = {name: [""] for name in named if name not in words}
    return pd.read_csv(StringIO(text), dtype=dict.fromkeys(words, str), keep_default_na=False,
                       na_values=empty)  # fmt: skip
