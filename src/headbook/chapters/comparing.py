"""Comparison of live measurements with published ones: equal, or which cell differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

CLAIMS = "claims"
SUBJECT = ("model", "text")
SECONDS = "seconds"
"""The column of times, which differ from run to run and are not compared."""
TOLERANCE = 2e-3
"""Published numbers have five digits, and another processor's rounding can move an argmax."""


@dataclass(frozen=True)
class Comparison:
    """Number of cells compared, and the first that differ, one line each."""

    cells: int
    differing: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.differing

    def __str__(self) -> str:
        if not self.cells and self.equal:
            return "nothing of it is published"
        if self.equal:
            return f"equal ({self.cells:,} values)"
        return f"{len(self.differing)} of {self.cells:,} values differ: {self.differing[0]}"


def compare(
    live: Mapping[str, pd.DataFrame], published: Mapping[str, pd.DataFrame], keys: Sequence[str]
) -> Comparison:
    """Rows measured now against published rows with the same values in the key columns.

    Within one key, rows are compared in their order: numbers within TOLERANCE (also as a share of
    the number), all else exactly, times not at all. Measurements that were never published are not
    compared, nor are claims beside any such measurement: their rows do not name the settings.
    """
    cells, differing = 0, []
    shared = {name: table for name, table in live.items() if name in published}
    if any(_groups(table, keys).keys() - _groups(published[name], keys).keys()
           for name, table in shared.items() if name != CLAIMS):  # fmt: skip
        shared.pop(CLAIMS, None)
    for name, table in shared.items():
        others = _groups(published[name], keys)
        for key, rows in _groups(table, keys).items():
            if key not in others:
                continue
            count, wrong = _rows(rows, others[key])
            cells += count
            differing += [f"{name}, {', '.join(map(str, key))}: {line}" for line in wrong]
    return Comparison(cells, tuple(differing))


def beside_published(
    live: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str]
) -> pd.DataFrame:
    """Published rows, and rows measured now that were never published, never two of one subject.

    A subject is a model and a text, or the whole table where it names neither. Rows of
    a subject measured with other settings (fewer sentences) replace its published rows.
    """
    known = _groups(published, keys)
    new = [rows for key, rows in _groups(live, keys).items() if key not in known]
    if not new:
        return published
    added = pd.concat(new)
    subject = [name for name in SUBJECT if name in keys and name in published and name in added]
    measured = set(_groups(added, subject))
    left = [rows for key, rows in _groups(published, subject).items() if key not in measured]
    return pd.concat([*left, added], ignore_index=True)


def _groups(table: pd.DataFrame, keys: Sequence[str]) -> dict[tuple, pd.DataFrame]:
    named = [name for name in keys if name in table]
    if not named:
        return {(): table}
    return {key: rows for key, rows in table.groupby(named, sort=False, dropna=False)}


def _rows(live: pd.DataFrame, published: pd.DataFrame) -> tuple[int, list[str]]:
    if len(live) != len(published):
        return 1, [f"{len(live)} rows now, {len(published)} published"]
    wrong = []
    shared = [name for name in live if name in published and name != SECONDS]
    for name in shared:
        pairs = zip(live[name], published[name], strict=True)
        wrong += [f"{name} is {now} now, {then} published" for now, then in pairs
                  if not _same(now, then)]  # fmt: skip
    wrong += [f"no column {name} is published" for name in live if name not in published]
    return len(live) * len(shared), wrong


def _same(now: object, then: object) -> bool:
    now, then = (None if each == "" else each for each in (now, then))  # a CSV has one empty cell
    if pd.isna(now) or pd.isna(then):
        return bool(pd.isna(now) and pd.isna(then))
    if isinstance(now, str) or isinstance(then, str):
        return str(now) == str(then)
    if float(now).is_integer() and float(then).is_integer():
        return bool(now == then)
    return abs(now - then) <= TOLERANCE * max(1.0, abs(then))
