"""References to cells of published tables, such as `13/best[firefox-en-pt; layer=6].value:%ci`.

`[aggregate(] [page/]table[key; key].column [)] [:format]`. A key is `column=value`, or a bare value
where a single column of the table holds it. All keys together leave one row; under an aggregate
(mean, max, min, count) one or more. Formats are those of `headbook.formats`, and `head`, which
shows the columns layer and head of a row as L6H5.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_numeric_dtype

from headbook import paths, tables
from headbook.formats import formatted
from headbook.types import UserError

REFERENCE = re.compile(
    r"(?:(?P<aggregate>\w+)\()?(?:(?P<page>\w+)/)?(?P<table>\w+)\[(?P<keys>.*)\]"
    r"(?:\.(?P<column>[^:()\[\]]+))?(?(aggregate)\))(?::(?P<form>.*))?"
)
AGGREGATES = ("mean", "max", "min", "count")
HEAD = "head"
SHOWN = 5
"""Candidates that an error names."""


@dataclass(frozen=True)
class Reference:
    """A reference, read; `aggregate` is empty for a single cell, `form` where none is given."""

    page: str
    table: str
    keys: tuple[str, ...]
    column: str
    aggregate: str
    form: str

    @property
    def name(self) -> str:
        """The table with its page, as in 13/best."""
        return f"{self.page}/{self.table}"

    def __str__(self) -> str:
        inner = f"{self.name}[{'; '.join(self.keys)}].{self.column}"
        return f"{self.aggregate}({inner})" if self.aggregate else inner


@dataclass(frozen=True)
class Cell:
    """A number as prose shows it, and what it is: table, keys, column, value and interval."""

    text: str
    origin: str


def parse(text: str, page: str = "") -> Reference:
    """The reference in this text; `page` holds for one that names none, as does column `value`.

    UserError for another syntax, an unknown aggregate, and where no page is known.
    """
    if not (match := REFERENCE.fullmatch(" ".join(text.split()))):
        raise UserError(f"{text!r} is no reference: write table[key; key].column:format")
    aggregate = match["aggregate"] or ""
    if aggregate and aggregate not in AGGREGATES:
        raise UserError(f"{text}: no aggregate {aggregate!r}; use {', '.join(AGGREGATES)}")
    if not (page := match["page"] or page):
        raise UserError(f"{text}: name its page, as in 13/{match['table']}[…]")
    keys = tuple(key for each in match["keys"].split(";") if (key := each.strip()))
    column = (match["column"] or "value").strip()
    return Reference(page, match["table"], keys, column, aggregate, match["form"] or "")


def rows(reference: Reference, root: Path | None = None) -> pd.DataFrame:
    """Rows of the published table that have all keys, in its order.

    UserError where there are none, for a bare key that several columns hold, and for an unknown
    table or column; it names the reference and what could have been meant.
    """
    return _found(reference, root)[0]


def cell(reference: Reference, root: Path | None = None) -> Cell:
    """The cell, or the aggregate of several, formatted, with its origin.

    UserError for more than one row, an empty cell, a format or aggregate that does not fit the
    column, and the faults listed at `rows`.
    """
    found, keys = _found(reference, root)
    column, origin = reference.column, f"{reference.name}: {', '.join(keys) or 'all rows'}"
    try:
        if reference.aggregate:
            values = found[column].dropna()
            if reference.aggregate != "count" and (values.empty or not is_numeric_dtype(values)):
                raise UserError(f"column {column} holds no numbers there")
            value = float(getattr(values, reference.aggregate)())
            origin += f"; {reference.aggregate} of {column}, {len(values)} rows: {value:.3g}"
            return Cell(formatted(value, reference.form), origin)
        if len(found) > 1:
            raise UserError(f"leaves {len(found)} rows: {_differences(found)}; add a key")
        (row,) = found.to_dict("records")
        text, of = _shown(reference, row)
    except UserError as fault:
        raise UserError(f"{reference}: {fault}") from None
    return Cell(text, f"{origin}; {column} {of}")


def _shown(reference: Reference, row: Mapping[str, Any]) -> tuple[str, str]:
    """The cell of this row as prose has it, and in full: value and interval."""
    column, form = reference.column, reference.form
    value, *ends = (row.get(f"{column}{end}", np.nan) for end in ("", "_low", "_high"))
    if pd.isna(value) or value == "":
        raise UserError("an empty cell")
    needed = ("layer", "head") if form == HEAD else (f"{column}_low",) if form[-2:] == "ci" else ()
    if lacking := [name for name in needed if name not in row]:
        raise UserError(f"format {form!r} needs a column {lacking[0]}")
    text = f"L{row['layer']}H{row['head']}" if form == HEAD else formatted(value, form, *ends)
    span = "" if pd.isna(ends).any() else f", {ends[0]:.3g} to {ends[1]:.3g}"
    return text, (f"{value:.3g}" if isinstance(value, float) else str(value)) + span


def _differences(found: pd.DataFrame) -> str:
    """The first rows by the columns in which they differ; measured quantities aside."""
    names = [name for name in found if found[name].nunique(dropna=False) > 1]
    keys = [name for name in names if not is_float_dtype(found[name])] or names
    first = found.head(SHOWN).to_dict("records")
    lines = [", ".join(f"{name}={row[name]}" for name in keys) or "all equal" for row in first]
    return " | ".join([*lines, *["…"] * (len(found) > SHOWN)])


def _found(reference: Reference, root: Path | None) -> tuple[pd.DataFrame, list[str]]:
    """The rows, and the keys as a reader would name them."""
    root, keys = root or paths.RESULTS, []
    entry = tables.entries(reference.page, root).get(reference.table, {})
    table = reference.page, reference.table, root, entry.get("sha256", "")
    try:
        frame = _table(*table)
        left = np.arange(len(frame))
        if reference.column not in frame:
            raise UserError(f"no column {reference.column!r}, {_columns(frame)}")
        for key in reference.keys:
            column, value, places = _places(table, key)
            before, left = left, np.intersect1d(left, places, assume_unique=True)
            if not len(left):
                here = dict.fromkeys(map(str, frame[column].iloc[before]))
                raise UserError(
                    f"no row has {column} {value!r} and the keys before it; "
                    f"there it is {', '.join(list(here)[:SHOWN])}"
                )
            keys.append(f"{column} {value}" if _is_number(frame[column]) else value)
    except UserError as fault:
        raise UserError(f"{reference}: {fault}") from None
    return frame.iloc[left], keys


@cache
def _table(page: str, name: str, root: Path, digest: str) -> pd.DataFrame:
    """Each table once, as long as its digest stays; UserError for one that has another."""
    return tables.typed(page, name, root)


@cache
def _places(table: tuple[str, str, Path, str], key: str) -> tuple[str, str, np.ndarray]:
    """Column and value of a key, and the places of the rows that have it.

    References share most of their keys, so each is looked up once.
    """
    frame = _table(*table)
    column, given, value = (part.strip() for part in key.partition("="))
    if given and column in frame:
        return column, value, _holding(frame[column], value)
    found = {name: at for name in frame if len(at := _holding(frame[name], key))}
    if len(found) > 1:
        names = " and ".join(found)
        raise UserError(f"{key!r} is a value of {names}: write {next(iter(found))}={key}")
    if not found:
        texts = [frame[name] for name in frame if not _is_number(frame[name])]
        near = get_close_matches(key, {str(value) for each in texts for value in each}, n=SHOWN)
        what = f"near it are {', '.join(near)}" if near and not given else _columns(frame)
        raise UserError(f"no column holds {key!r}; {what}")
    ((name, places),) = found.items()
    return name, key, places


def _holding(column: pd.Series, value: str) -> np.ndarray:
    """Places of a value; numbers compare as numbers, and no value is an empty cell."""
    if not _is_number(column):
        return np.flatnonzero(column.fillna("").astype(str) == value)
    try:
        return np.flatnonzero(column == float(value) if value else column.isna())
    except ValueError:
        return np.empty(0, int)


def _is_number(column: pd.Series) -> bool:
    return is_numeric_dtype(column) and not is_bool_dtype(column)


def _columns(frame: pd.DataFrame) -> str:
    return f"columns are {', '.join(frame)}"
