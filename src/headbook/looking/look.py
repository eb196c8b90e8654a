"""`headbook look`: a model's heads as one HTML page and one CSV file."""

import os
import re
import sys
import warnings
from pathlib import Path

from headbook.looking.load import load
from headbook.looking.measure import measure
from headbook.looking.page import page
from headbook.looking.text import SAMPLE, Text, text
from headbook.types import UserError

PAGE, TABLE = "heads.html", "heads.csv"


def look(
    name: str, source: str = SAMPLE, out: Path | None = None, first: int | None = None
) -> tuple[Path, Path]:
    """Measures the model on the text and writes page and table; returns where they are.

    `out` is a folder, by default look/<model> in the current one; files in it are replaced at the
    end, whole. UserError as `load`, `text` and `measure` raise it, and for a folder that cannot be
    written to.
    """
    folder = out or Path("look") / _plain(name)
    _require_writable(folder)
    model, sentences = load(name), _text(source, first)
    heads = measure(model, sentences)
    written = {
        TABLE: heads.to_csv(index=False, float_format="%.6g"),
        PAGE: page(model, sentences, heads, TABLE),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in written.items():
        aside = folder / f".{file}.aside"
        aside.write_text(content, "utf-8")
        aside.replace(folder / file)
    return folder / PAGE, folder / TABLE


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
