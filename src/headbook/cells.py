"""References to cells of published tables, such as `13/best[firefox-en-pt; layer=6].value:%ci`.

`[aggregate(] [page/]table[key; key].column [)] [:format]`. A key is `column=value`, or a bare value
where a single column of the table holds it. All keys together leave one row; under an aggregate
(mean, max, min, count) one or more. Formats are those of `headbook.formats`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_numeric_dtype

from headbook import tables
from headbook.formats import formatted
from headbook.types import UserError

REFERENCE = re.compile(
    r"(?:(?P<aggregate>\w+)\()?(?:(?P<page>\w+)/)?(?P<table>\w+)\[(?P<keys>.*)\]"
    r"(?:\.(?P<column>[^:()\[\]]+))?(?(aggregate)\))(?::(?P<form>.*))?"
)
AGGREGATES = ("mean", "max", "min", "count")
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

    def __str__(self) -> str:
        inner = f"{self.page}/{self.table}[{'; '.join(self.keys)}].{self.column}"
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
    column, origin = reference.column, f"{reference.page}/{reference.table}: "
    origin += ", ".join(keys) or "all rows"
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
    if form.endswith("ci") and f"{column}_low" not in row:
        raise UserError(f"format {form!r} needs a column {column}_low")
    span = "" if pd.isna(ends).any() else f", {ends[0]:.3g} to {ends[1]:.3g}"
    exact = f"{value:.3g}" if isinstance(value, float) else str(value)
    return formatted(value, form, *ends), exact + span


def _differences(found: pd.DataFrame) -> str:
    """The first rows by the columns in which they differ; measured quantities aside."""
    names = [name for name in found if found[name].nunique(dropna=False) > 1]
    keys = [name for name in names if not is_float_dtype(found[name])] or names
    first = found.head(SHOWN).to_dict("records")
    lines = [", ".join(f"{name}={row[name]}" for name in keys) or "all equal" for row in first]
    return " | ".join([*lines, *["…"] * (len(found) > SHOWN)])


def _found(reference: Reference, root: Path | None) -> tuple[pd.DataFrame, list[str]]:
    """The rows, and the keys as a reader would name them."""
    keys = []
    try:
        frame = left = tables.typed(reference.page, reference.table, root)
        if reference.column not in frame:
            raise UserError(f"no column {reference.column!r}, {_columns(frame)}")
        for key in reference.keys:
            column, value = _column(frame, key)
            before, left = left, left[_holding(left[column], value)]
            if left.empty:
                raise UserError(
                    f"no row has {column} {value!r} and the keys before it; "
                    f"there it is {', '.join(map(str, before[column].unique()[:SHOWN]))}"
                )
            keys.append(f"{column} {value}" if _is_number(frame[column]) else value)
    except UserError as fault:
        raise UserError(f"{reference}: {fault}") from None
    return left, keys


def _column(frame: pd.DataFrame, key: str) -> tuple[str, str]:
    """Column and value of a key."""
    column, given, value = (part.strip() for part in key.partition("="))
    if given and column in frame:
        return column, value
    found = [name for name in frame if _holding(frame[name], key).any()]
    if len(found) > 1:
        raise UserError(f"{key!r} is a value of {' and '.join(found)}: write {found[0]}={key}")
    if not found:
        texts = {str(value) for each in tables.text_columns(frame) for value in frame[each]}
        near = ", ".join(get_close_matches(key, texts, n=SHOWN))
        near = f"near it are {near}; " if near else ""
        raise UserError(f"no column holds {key!r}; {near}{_columns(frame)}")
    return found[0], key


def _holding(column: pd.Series, value: str) -> pd.Series:
    """Rows of a value; numbers compare as numbers, and no value is an empty cell."""
    if not _is_number(column):
        return column.fillna("").astype(str) == value
    try:
        return column == float(value) if value else column.isna()
    except ValueError:
        return pd.Series(False, column.index)


def _is_number(column: pd.Series) -> bool:
    return is_numeric_dtype(column) and not is_bool_dtype(column)


def _columns(frame: pd.DataFrame) -> str:
    return f"columns are {', '.join(frame)}"
