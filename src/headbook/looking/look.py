"""`headbook look`: a model's heads as one HTML page and tables in CSV."""

import os
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headbook.looking.compare import compare
from headbook.looking.load import load
from headbook.looking.measure import measure
from headbook.looking.page import page
from headbook.looking.text import SAMPLE, Text, readable, text
from headbook.types import UserError

PAGE, TABLE, BESIDE = "heads.html", "heads.csv", "beside.csv"


def look(
    name: str,
    source: str = SAMPLE,
    out: Path | None = None,
    first: int | None = None,
    *,
    sentences: Sequence[str] = (),
    beside: str | None = None,
    **measuring: Any,
) -> list[Path]:
    """Measures the model on the text and writes page and tables; returns where they are.

    `out` is a folder, by default look/<model> in the current one; files in it are replaced at the
    end, whole. `sentences` are shown with their attention, some short ones of the text without.
    `beside` is another model, or another state of this one, that is compared head by head; further
    options are those of `measure`. UserError as `load`, `text`, `measure` and `compare` raise it,
    and for a folder that cannot be written to.
    """
    folder = out or Path("look") / _plain(name)
    _require_writable(folder)
    model, read = load(name), _text(source, first)
    other = load(beside) if beside is not None else None
    shown, _ = readable(model, read)
    if other is not None:  # both measure what both can read
        read = shown = readable(other, shown)[0]
    heads = measure(model, read, **measuring)
    written = {TABLE: heads.to_csv(index=False, float_format="%.6g")}
    changes = None
    if other is not None:
        changes = compare(heads, measure(other, read, **measuring))
        written[BESIDE] = changes.to_csv(index=False, float_format="%.6g")
    written[PAGE] = page(model, shown, heads, TABLE, sentences, (beside or "", changes))
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in written.items():
        aside = folder / f".{file}.aside"
        aside.write_text(content, "utf-8")
        aside.replace(folder / file)
    return [folder / file for file in (PAGE, TABLE, BESIDE) if file in written]


def _text(source: str, first: int | None) -> Text:
    """With warnings as plain lines."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        read = text(source, first=first)
    for each in given:
        print(f"headbook: {each.message}", file=sys.stderr)
    return read


def _plain(name: str) -> str:
    """The last part of a path or id, without characters that a file name should not have."""
    return re.sub(r"[^\w.-]+", "-", Path(name).name or name) or "model"


def _require_writable(folder: Path) -> None:
    """Said before minutes of measuring, not after; nothing is created yet."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise UserError(f"{there} is a file; name a folder to write to")
    if not os.access(there, os.W_OK):
        raise UserError(f"{there} cannot be written to; name another folder")
