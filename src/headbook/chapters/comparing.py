"""Comparison of live measurements with published ones: equal, or which cell differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from headbook.chapters.results import CLAIM
from headbook.old_results import CLAIMS, SUMMARY
from headbook.tolerances import as_key, is_compared, same, tolerance

SUBJECT = ("model", "text")


@dataclass(frozen=True)
class Comparison:
    """Number of cells and of rows compared, and every cell that differs, one line each."""

    cells: int
    differing: tuple[str, ...] = ()
    rows: int = 0

    @property
    def equal(self) -> bool:
        return not self.differing

    def __str__(self) -> str:
        if not self.cells and self.equal:
            return "no published rows of these settings"
        if self.equal:
            return f"equal ({self.cells:,} values)"
        return f"{len(self.differing)} of {self.cells:,} values differ: {self.differing[0]}"


def compare(
    live: Mapping[str, pd.DataFrame],
    published: Mapping[str, pd.DataFrame],
    keys: Sequence[str],
    page: str = "",
) -> Comparison:
    """Rows measured now against published rows with the same values in the key columns.

    Claims are compared row by row, by what names them. Within one key, rows of other tables are
    compared in their order: numbers within the tolerance of their column (see `tolerances`), all
    else exactly, times not at all. Measurements that were never published are not compared, nor are
    claims beside any such measurement: their rows do not name the settings.
    """
    cells, rows, differing = 0, 0, []
    shared = {name: table for name, table in live.items() if name in published}
    if any(_groups(table, keys).keys() - _groups(published[name], keys).keys()
           for name, table in shared.items() if name != CLAIMS):  # fmt: skip
        shared.pop(CLAIMS, None)
    for name, table in shared.items():
        mine = CLAIM if name == CLAIMS else keys
        others = _groups(published[name], mine)
        for key, found in _groups(table, mine).items():
            if key not in others:
                continue
            at = (page, SUMMARY if name == CLAIMS else name)
            count, wrong = _rows(found, others[key], at)
            cells, rows = cells + count, rows + len(found)
            row = "; ".join(map(str, key))
            differing += [f"{page and page + '/'}{at[1]}, {row}: {line}" for line in wrong]
    return Comparison(cells, tuple(differing), rows)


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
    places: dict[tuple[str, ...], list[int]] = {}
    for place, row in enumerate(table[named].itertuples(index=False)):
        places.setdefault(tuple(map(as_key, row)), []).append(place)
    return {key: table.iloc[found] for key, found in places.items()}


def _rows(
    live: pd.DataFrame, published: pd.DataFrame, at: tuple[str, str]
) -> tuple[int, list[str]]:
    if len(live) != len(published):
        return 1, [f"{len(live)} rows now, {len(published)} published"]
    wrong = []
    shared = [name for name in live if name in published and is_compared(*at, name)]
    for name in shared:
        allowed = tolerance(*at, name)
        pairs = enumerate(zip(live[name], published[name], strict=True), start=1)
        wrong += [f"{name} is {now} now, {then} published" + f" (row {row})" * (len(live) > 1)
                  for row, (now, then) in pairs if not same(now, then, allowed)]  # fmt: skip
    wrong += [f"no column {name} is published" for name in live if name not in published]
    return len(live) * len(shared), wrong
