"""Tidy tables of results: made from replicates, shown, compared with published ones, published."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from headbook import paths, tables
from headbook.formats import formatted
from headbook.runs import record
from headbook.runs.canonical import plain
from headbook.runs.store import Ingredients, Stage, Store, checked
from headbook.tolerances import as_key, is_compared, same, tolerance
from headbook.types import COMPARED, UserError

ENDS = (0.025, 0.975)
"""Quantiles of the replicates that are the ends of an interval."""
CLASSES = "table headbook-table"


# ------------------------------------------------------------------ tables


def table(labels: Mapping[str, Any], **columns: Any) -> pd.DataFrame:
    """A tidy table: the key columns `labels`, then quantities.

    A quantity is an array [row], or replicates [1 + replicate, row], whose first is the value:
    these become the columns x, x_low and x_high, the ends of the 95 % interval over the replicates,
    missing ones left out. A label is a list [row] or one value for all rows.
    UserError where columns have different lengths, or a quantity has the name of a label.
    """
    found = {name: each if _is_list(each) else [each] for name, each in labels.items()}
    for name, values in columns.items():
        if name in labels:
            raise UserError(f"{name!r} is a label and a quantity: rename one of them")
        array = np.asarray(values)
        if array.ndim < 2:
            found[name] = values
            continue
        ends = pd.DataFrame(array[1:], dtype=float).quantile(ENDS).to_numpy()
        found[name], found[f"{name}_low"], found[f"{name}_high"] = array[0], *ends
    sizes = {name: len(each) for name, each in found.items()}
    rows = max(sizes.values(), default=0)
    if wrong := [name for name, size in sizes.items() if size not in (1, rows)]:
        raise UserError(f"{wrong[0]!r} has {sizes[wrong[0]]} rows, where there are {rows}")
    whole = {name: each if len(each) == rows else list(each) * rows for name, each in found.items()}
    frame = pd.DataFrame(whole)
    frame.attrs["keys"] = list(labels)
    return frame


def _is_list(value: Any) -> bool:
    return not isinstance(value, str) and np.ndim(value) > 0


@dataclass(frozen=True)
class Shown:
    """A table as HTML: texts to the left, numbers to the right; texts wrap, a long one scrolls."""

    cells: pd.DataFrame
    numbers: frozenset[str]

    def _repr_html_(self) -> str:
        head = self._row("th", self.cells.columns)
        body = "".join(self._row("td", row) for row in self.cells.itertuples(index=False))
        rows = f"<thead>{head}</thead><tbody>{body}</tbody>"
        return (
            '<div class="headbook-scroll" tabindex="0" style="overflow: auto; max-height: 27rem">'
            f'<table class="{CLASSES}">{rows}</table></div>'
        )

    def __repr__(self) -> str:
        return self.cells.to_string(index=False)

    def _row(self, tag: str, values: Iterable[str]) -> str:
        inside = ""
        for name, value in zip(self.cells, values, strict=True):
            number = name in self.numbers
            style = "white-space: nowrap; " * (number and tag == "td")
            style += f"text-align: {'right' if number else 'left'}"
            inside += f'<{tag} style="{style}">{escape(value)}</{tag}>'
        return f"<tr>{inside}</tr>"


def show(frame: pd.DataFrame, formats: Mapping[str, str]) -> Shown:
    """A table for reading: the key columns in which rows differ, then the columns of `formats`.

    `formats` are those of `headbook.formats.formatted`, by column: {"value": "%ci", "offset": "%"},
    "" for text. An interval is taken from the columns x_low and x_high. Keys are those of
    `hb.table`, or else the columns of text; one that is in `formats` stands where it says there.
    UserError for an unknown column or format.
    """
    if unknown := [name for name in formats if name not in frame]:
        raise UserError(f"no column {unknown[0]!r} to show: there are {', '.join(frame)}")
    keys = [name for name in frame.attrs.get("keys", tables.text_columns(frame))
            if name in frame and name not in formats]  # fmt: skip
    differ = [name for name in keys if frame[name].nunique(dropna=False) > 1]
    shown = {**dict.fromkeys(differ if len(frame) > 1 else keys, ""), **formats}
    cells = {name.replace("_", " "): _formatted(frame, name, form) for name, form in shown.items()}
    numbers = (name.replace("_", " ") for name in shown if name not in tables.text_columns(frame))
    return Shown(pd.DataFrame(cells, dtype=str), frozenset(numbers))


def _formatted(frame: pd.DataFrame, name: str, form: str) -> list[str]:
    missing = [np.nan] * len(frame)
    ends = (frame.get(f"{name}_{end}", missing) for end in ("low", "high"))
    return [formatted(*cells[:1], form, *cells[1:])
            for cells in zip(frame[name], *ends, strict=True)]  # fmt: skip


# ------------------------------------------------------------------ published ones


def published(page: str | int, name: str) -> pd.DataFrame:
    """The published table `data/results/<page>/<name>.csv`, texts as text.

    UserError where it is missing, and where it is not the one that its record has a digest of.
    """
    return tables.typed(page, name)


def publish(frame: pd.DataFrame, name: str, keys: Sequence[str] | None = None) -> pd.DataFrame:
    """Compares rows with the published table `name` ("13/best"), or publishes them.

    In an ordinary run rows are compared with published rows of the same keys, each number within
    its tolerance (`headbook.tolerances`) and all else exactly; one line says how many agree. What
    comes back are the published rows and those of `frame`, which stand in the place of rows of the
    same keys. Under `headbook publish 13` rows of the same keys are replaced in
    `data/results/13/best.csv`, others stay to the letter, and the record beside them says what made
    these. `keys` are the columns that say what a row is about, whatever changes its value among
    them, such as the number of sentences; by default the labels of `hb.table`, and of another frame
    all columns but floats. UserError for two rows of the same keys, and for keys other than those
    of the published table.
    """
    page, _, short = name.partition("/")
    if not (page and short):
        raise UserError(f"{name!r} is no table: give page and name, as in '13/best'")
    keys = _keys(frame, name, keys)
    own = _by_key(frame, keys)
    if len(own) < len(frame):
        raise UserError(f"{name} has two rows of one key: a column that tells them apart is no key")
    asked = paths.publishing()
    if asked is None:
        known = _by_key(_known(page, short, keys), keys)
        _say(*_compared(own, known, keys, f"{tables.folder(page).name}/{short}"))
        return _together(known, own, keys) if known else frame.copy()
    if tables.folder(page) != tables.folder(asked["page"]):
        raise UserError(f"page {asked['page']} publishes {name!r}: name its own number first")
    where = _put(frame, page, short, keys, asked["parameters"])
    _say(f"{len(frame):,} rows published in {where.name}/{short}.csv")
    return _together(_by_key(tables.typed(page, short), keys), own, keys)


def _keys(frame: pd.DataFrame, name: str, keys: Sequence[str] | None) -> list[str]:
    if keys is None:
        floats = set(frame.select_dtypes("float"))
        keys = frame.attrs.get("keys") or [each for each in frame if each not in floats]
    if unknown := [each for each in keys if each not in frame]:
        raise UserError(f"{name} has no column {unknown[0]!r}, a key: there are {', '.join(frame)}")
    return list(keys)


Rows = dict[tuple[str, ...], dict[str, Any]]
"""Rows by their keys as text."""


def _by_key(frame: pd.DataFrame, keys: Sequence[str]) -> Rows:
    named = (tuple(map(as_key, row)) for row in frame[list(keys)].itertuples(index=False))
    return dict(zip(named, frame.to_dict("records"), strict=True))


def _known(page: str, short: str, keys: list[str]) -> pd.DataFrame:
    """The published rows; none where the table was never published."""
    entry = tables.entries(page).get(short)
    if entry is None:
        return pd.DataFrame(columns=keys)
    if set(entry["keys"]) != set(keys):
        raise UserError(
            f"{page}/{short} is published with the keys {', '.join(entry['keys'])}, and this frame "
            f"has {', '.join(keys)}: use the same, or remove the table and publish page {page} anew"
        )
    return tables.typed(page, short)


def _compared(own: Rows, known: Rows, keys: list[str], at: str) -> tuple[str, dict[str, Any]]:
    """The line for a reader, and what the runner counts.

    Of every column but the keys; of columns that one of the two lacks, no cell agrees.
    """
    page, short = at.split("/")
    rows, cells, differ, differing = 0, 0, 0, []
    for key, row in own.items():
        if key not in known:
            continue
        columns = [each for each in row | known[key] if each not in keys]
        allowed = {each: tolerance(page, short, each, row.get("question")) for each in columns}
        quantities = [each for each in columns if is_compared(allowed[each])]
        rows, cells = rows + 1, cells + len(quantities)
        wrong = [
            f"{at}, {'; '.join(key)}: {each} is {_cell(row, each)} now, "
            f"{_cell(known[key], each)} published"
            for each in quantities
            if not same(row.get(each), known[key].get(each), allowed[each])
        ]
        differ += bool(wrong)
        differing += wrong
    counted = {"cells": cells, "rows": rows, "differing": differing}
    if not rows:
        return f"{at}: nothing to compare, as there are no published rows of these keys", counted
    line = f"{at}: {rows - differ:,} of {rows:,} rows as published"
    if new := len(own) - rows:
        line += f", {new:,} others are not published"
    return line + (f"; {differ:,} differ: {differing[0]}" if differ else ""), counted


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "empty" if as_key(value) == "" else str(value)


def _together(known: Rows, own: Rows, keys: list[str]) -> pd.DataFrame:
    """The published rows, one's own in the place of rows of the same keys, the new ones last."""
    names = dict.fromkeys(name for row in (*known.values(), *own.values()) for name in row)
    found = pd.DataFrame([*(known | own).values()], columns=[*names])
    found.attrs["keys"] = keys
    return found


def _put(
    frame: pd.DataFrame, page: str, short: str, keys: list[str], given: Mapping[str, Any]
) -> Path:
    """Rows of the same keys replaced, at their place; new ones last. Others stay to the letter."""
    made = {
        "rows": len(frame), "commit": record.commit(), "changed": record.changed(),
        "date": record.now(), "hardware": record.hardware(), "versions": record.versions(),
        "parameters": plain(given),
    }  # fmt: skip
    with tables.locked(page):
        there = (tables.folder(page) / f"{short}.csv").exists()
        entry = tables.entries(page).get(short, {}) if there else {}
        new = tables.read_cells(tables.csv(frame))
        if entry:
            _known(page, short, keys)
            known = _by_key(tables.cells(page, short), keys)
            new = _together(known, _by_key(new, keys), keys).fillna("")
        words = dict.fromkeys([*entry.get("text", ()), *tables.text_columns(frame)])
        others = [each for each in entry.get("made", ()) if each["parameters"] != plain(given)]
        entry = {**entry, "keys": keys, "text": list(words), "made": [*others, made]}
        text = new.to_csv(index=False, lineterminator="\n")
        return tables.replace(page, short, text, entry)


def _say(line: str, compared: Mapping[str, Any] | None = None) -> None:
    """Shows the line, in a notebook with what the runner counts."""
    from IPython import display, get_ipython

    if get_ipython() is None:
        print(line)
    else:
        display.display({"text/plain": line, COMPARED: compared or {}}, raw=True)


# ------------------------------------------------------------------ what takes long

Made = TypeVar("Made", pd.DataFrame, dict[str, np.ndarray])
CACHED = 1
"""Version of the files in which cached results are kept."""
FRAME, ARRAYS = "frame.parquet", "arrays.safetensors"


def cached(function: Callable[..., Made], **settings: Any) -> Made:
    """`function(**settings)`, computed once and kept in the run store.

    A result is found again by the function's full name, its source and the settings, which are
    numbers, texts, lists, mappings or dataclasses. The function returns a DataFrame or a dictionary
    of arrays; what it writes or draws is not repeated. Two processes that ask for the same compute
    it once. UserError where a kept file was changed.
    """
    asked = Ingredients(
        Stage("cached", CACHED),
        {"function": f"{function.__module__}.{function.__qualname__}", "settings": plain(settings),
         "version": inspect.getsource(function)},
        {}, {},
    )  # fmt: skip
    return _kept(Store.default().get(asked, lambda folder: _keep(function(**settings), folder)))


def _keep(made: object, folder: Path) -> None:
    from safetensors.numpy import save_file

    if isinstance(made, pd.DataFrame):
        made.to_parquet(folder / FRAME)
    elif isinstance(made, Mapping) and all(isinstance(each, np.ndarray) for each in made.values()):
        arrays = {name: np.ascontiguousarray(each) for name, each in made.items()}
        save_file(arrays, folder / ARRAYS)
    else:
        raise TypeError(f"cached results are a DataFrame or arrays by name, not {type(made)}")


def _kept(folder: Path) -> Any:
    from safetensors.numpy import load_file

    if (folder / ARRAYS).exists():
        return load_file(checked(folder, ARRAYS))
    return pd.read_parquet(checked(folder, FRAME))
