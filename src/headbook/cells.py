"""References to cells of published tables, such as `13/best[firefox-en-pt; layer=6].value:%ci`.

`[aggregate(] [page/]table[key; key].column [)] [:format]`. A key is `column=value`, or a bare value
where a single column of the table holds it. All keys together leave one row; under an aggregate
(mean, max, min, count) one or more. Formats are those of `headbook.formats`, and `head`, which
shows the columns layer and head of a row as L6H5.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype, is_numeric_dtype

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
NOWHERE = np.empty(0, int)


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
    table, left, _ = _found(reference, root)
    return table.frame.iloc[left]


def cell(reference: Reference, root: Path | None = None) -> Cell:
    """The cell, or the aggregate of several, formatted, with its origin.

    UserError for more than one row, an empty cell, a format or aggregate that does not fit the
    column, and the faults listed at `rows`.
    """
    table, left, keys = _found(reference, root)
    column, origin = reference.column, f"{reference.name}: {', '.join(keys) or 'all rows'}"
    if reference.aggregate:
        values = table.frame[column].iloc[left].dropna()
        value = _aggregate(reference, values)
        origin += f"; {reference.aggregate} of {column}, {len(values)} rows: {value:.3g}"
        return Cell(_formatted(reference, value), origin)
    if len(left) > 1:
        differences = _differences(table.frame.iloc[left])
        raise UserError(f"{reference} leaves {len(left)} rows: {differences}; add a key")
    (row,) = (table.records[place] for place in left)
    value, *ends = (row.get(f"{column}{end}", np.nan) for end in ("", "_low", "_high"))
    if pd.isna(value) or value == "":
        raise UserError(f"{reference} is an empty cell")
    needed = ("layer", "head") if reference.form == HEAD else ()
    needed = (f"{column}_low",) if reference.form.endswith("ci") else needed
    if lacking := [name for name in needed if name not in row]:
        raise UserError(f"{reference}: format {reference.form!r} needs a column {lacking[0]}")
    text = f"L{row['layer']}H{row['head']}" if reference.form == HEAD else None
    span = "" if pd.isna(ends).any() else f", {ends[0]:.3g} to {ends[1]:.3g}"
    shown = f"{value:.3g}" if isinstance(value, float) else value
    text = text or _formatted(reference, value, *ends)
    return Cell(text, f"{origin}; {column} {shown}{span}")


def _aggregate(reference: Reference, values: pd.Series) -> float:
    counts = reference.aggregate == "count"
    if not counts and (values.empty or not is_numeric_dtype(values)):
        raise UserError(f"{reference}: column {reference.column} holds no numbers there")
    return float(getattr(values, reference.aggregate)())


def _formatted(reference: Reference, value: object, *ends: float | int) -> str:
    try:
        return formatted(value, reference.form, *ends)
    except UserError as fault:
        raise UserError(f"{reference}: {fault}") from None


def _differences(found: pd.DataFrame) -> str:
    """The first rows by the columns in which they differ; measured quantities aside."""
    names = [name for name in found if found[name].nunique(dropna=False) > 1]
    keys = [name for name in names if not is_float_dtype(found[name])] or names
    first = found.head(SHOWN).to_dict("records")
    lines = [", ".join(f"{name}={row[name]}" for name in keys) or "all equal" for row in first]
    return " | ".join([*lines, *["…"] * (len(found) > SHOWN)])


def _found(reference: Reference, root: Path | None) -> tuple["_Table", np.ndarray, list[str]]:
    """Table, places of the rows, and the keys as a reader would name them."""
    table = _table(reference, root or paths.RESULTS)
    frame, left, keys = table.frame, np.arange(len(table.frame)), []
    try:
        if reference.column not in frame:
            raise UserError(f"no column {reference.column!r}, {table.columns}")
        for key in reference.keys:
            column, value, places = table.places(key)
            before, left = left, np.intersect1d(left, places, assume_unique=True)
            if not len(left):
                here = dict.fromkeys(map(str, frame[column].iloc[before]))
                raise UserError(
                    f"no row has {column} {value!r} and the keys before it; "
                    f"there it is {', '.join(list(here)[:SHOWN])}"
                )
            keys.append(f"{column} {value}" if column not in table.texts else value)
    except UserError as fault:
        raise UserError(f"{reference}: {fault}") from None
    return table, left, keys


@dataclass(frozen=True)
class _Table:
    frame: pd.DataFrame

    @property
    def columns(self) -> str:
        return f"columns are {', '.join(self.frame)}"

    @cached_property
    def records(self) -> list[dict[str, object]]:
        return self.frame.to_dict("records")

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        return {
            name: each.to_numpy(float) for name, each in self.frame.select_dtypes("number").items()
        }

    @cached_property
    def texts(self) -> dict[str, dict[str, np.ndarray]]:
        """For each column that holds no numbers the places of each of its values."""
        texts = self.frame.drop(columns=list(self.numbers)).fillna("").astype(str)
        return {name: texts.groupby(name).indices for name in texts}

    @cached_property
    def known(self) -> dict[str, tuple[str, str, np.ndarray]]:
        """Keys that were looked up before: references share most of theirs."""
        return {}

    def places(self, key: str) -> tuple[str, str, np.ndarray]:
        """Column and value of a key, and the places of the rows that have it."""
        if key not in self.known:
            self.known[key] = self._places(key)
        return self.known[key]

    def _places(self, key: str) -> tuple[str, str, np.ndarray]:
        column, given, value = (part.strip() for part in key.partition("="))
        if given and column in self.frame:
            return column, value, self._holding(column, value)
        found = {name: places for name in self.frame if len(places := self._holding(name, key))}
        if len(found) > 1:
            names = " and ".join(found)
            raise UserError(f"{key!r} is a value of {names}: write {next(iter(found))}={key}")
        if not found:
            values = {value for each in self.texts.values() for value in each}
            near = get_close_matches(key, values, n=SHOWN, cutoff=0.4)
            what = f"near it are {', '.join(near)}" if near and not given else self.columns
            raise UserError(f"no column holds {key!r}; {what}")
        ((name, places),) = found.items()
        return name, key, places

    def _holding(self, column: str, value: str) -> np.ndarray:
        """Places of a value; numbers compare as numbers, and no value is an empty cell."""
        if column in self.texts:
            return self.texts[column].get(value, NOWHERE)
        numbers = self.numbers[column]
        try:
            return np.flatnonzero(numbers == float(value) if value else np.isnan(numbers))
        except ValueError:
            return NOWHERE


def _table(reference: Reference, root: Path) -> _Table:
    recorded = tables.entries(reference.page, root).get(reference.table, {}).get("sha256", "")
    return _indexed(reference.page, reference.table, root, recorded)


@cache
def _indexed(page: str, name: str, root: Path, digest: str) -> _Table:
    """Each table once, as long as its digest stays; UserError for one that has another."""
    return _Table(tables.typed(page, name, root))
