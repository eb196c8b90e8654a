"""Tables of pages that have not moved, by profile, with the names and order that they had.

One CSV holds the rows of both profiles where both had a table of that name (`profile` is its first
column). An interval `low, high` is called after the column before it, a page's `claims` are its
`summary`, and keys come first. An entry's `was` has the former columns, and which of them held
text, by profile; `made` in the record has what made them.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import tables

CLAIMS, SUMMARY = "claims", "summary"
PROFILE = "profile"

UNMEASURED = {"seed"}
"""Columns that no interval belongs to, though one stands behind them (page 36, `gains`)."""
Cells = dict[str, pd.DataFrame]
"""Tables by name, every cell as it is written."""


def studies(profile: str, root: Path | None = None) -> dict[str, dict[str, Any]]:
    """The records of all pages published at a profile, by the page's full name."""
    found = (made(page, profile, root) for page in tables.pages(root))
    return {run["study"]: run for run in found if run}


def study(page: int, root: Path | None = None) -> str:
    """The full name of a page that has tables of this kind; its number where it has none."""
    return next((run["study"] for run in tables.record(page, root).get("made", {}).values()),
                str(page))  # fmt: skip


def made(study: str, profile: str, root: Path | None = None) -> dict[str, Any] | None:
    """What made a page's tables at a profile; None where they were never published."""
    return tables.record(study, root).get("made", {}).get(profile)


def text_columns(study: str, profile: str, root: Path | None = None) -> dict[str, list[str]]:
    """The columns of text of every table, by its name."""
    return {_old(name): was[profile]["text"] for name, was in _was(study, root).items()
            if profile in was}  # fmt: skip


def old_cells(study: str, profile: str, root: Path | None = None) -> Cells:
    """All tables of a page at a profile, in the order of their names."""
    return {name: old_table(study, profile, name, root)
            for name in sorted(text_columns(study, profile, root))}  # fmt: skip


def old_table(study: str, profile: str, name: str, root: Path | None = None) -> pd.DataFrame | None:
    """One table of a page at a profile; None where there is none."""
    was = _was(study, root).get(_new(name), {})
    if profile not in was:
        return None
    found = tables.cells(study, _new(name), root)
    if len(was) > 1:
        found = found[found[PROFILE] == profile].reset_index(drop=True)
    named = new_columns(was[profile]["columns"])
    return found[list(named.values())].set_axis(list(named), axis=1)


def save(
    study: str, profile: str, found: Cells, text: Mapping[str, list[str]], run: Mapping[str, Any],
    root: Path | None = None,
) -> Path:  # fmt: skip
    """Tables and record take the place of a page's earlier ones at this profile."""
    with tables.locked(study, root):
        before = tables.record(study, root)
        every = {name: (old_cells(study, name, root), text_columns(study, name, root))
                 for name in before.get("made", {})}  # fmt: skip
        every[profile] = (found, text)
        files, listed = laid_out(every)
        moved = {n: each for n, each in tables.entries(study, root).items() if "was" not in each}
        record = {**before, "tables": {**moved, **listed}}
        record["made"] = {**before.get("made", {}), profile: {"study": study, **run}}
        return tables.replace(study, files, record, root)


def laid_out(
    every: Mapping[str, tuple[Cells, Mapping[str, list[str]]]],
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """The files and their entries, by new name; `every` has tables and columns of text by profile.

    The profiles stand in the order of their names, the released models' first.
    """
    parts: dict[str, dict[str, pd.DataFrame]] = {}
    was: dict[str, dict[str, Any]] = {}
    for profile in sorted(every, reverse=True):
        found, text = every[profile]
        for name, old in found.items():
            new, kept = _new(name), {"columns": list(old), "text": list(text.get(name, ()))}
            named = new_columns(kept["columns"])
            parts.setdefault(new, {})[profile] = old.rename(columns=named)
            was.setdefault(new, {})[profile] = kept
    files, listed = {}, {}
    for name in sorted(parts):
        words = {new_columns(kept["columns"])[column]: None
                 for kept in was[name].values() for column in kept["text"]}  # fmt: skip
        found = list(parts[name].values())
        if len(found) > 1:
            found = [each.assign(**{PROFILE: profile}) for profile, each in parts[name].items()]
            words = {PROFILE: None, **words}
        whole = pd.concat(found, ignore_index=True).fillna("") if len(found) > 1 else found[0]
        whole = whole[_keys_first(whole, words)]
        files[name] = whole.to_csv(index=False, lineterminator="\n")
        listed[name] = {"text": [each for each in whole if each in words], "was": was[name]}
    return files, listed


def new_columns(old: Iterable[str]) -> dict[str, str]:
    """The names that columns have now, by those they had.

    An interval is called after the measured column before it: `change, low, high` becomes `change,
    change_low, change_high`, and so does `own_added, own_low, own_high`.
    """
    columns = list(old)
    named = {name: name for name in columns}
    for before, low, high in zip(columns, columns[1:], columns[2:], strict=False):
        start = low.removesuffix("low")
        if start == low or high != f"{start}high":
            continue
        if before.startswith(start) and before not in UNMEASURED:
            named |= {low: f"{before}_low", high: f"{before}_high"}
    return named


def _keys_first(whole: pd.DataFrame, words: Collection[str]) -> list[str]:
    """The columns, those of text first, then whole numbers, then measured ones."""

    def rank(name: str) -> int:
        if name in words:
            return 1 if name != PROFILE else 0
        interval = f"{name}_low" in whole or name.endswith(("_low", "_high"))
        filled = whole[name][whole[name] != ""]
        measured = interval or filled.empty or filled.str.contains(r"[.e]|inf").any()
        return 3 if measured else 2

    return sorted(whole, key=rank)


def _was(study: str, root: Path | None) -> dict[str, dict[str, Any]]:
    listed = tables.entries(study, root).items()
    return {name: entry["was"] for name, entry in listed if "was" in entry}


def _new(name: str) -> str:
    return SUMMARY if name == CLAIMS else name


def _old(name: str) -> str:
    return CLAIMS if name == SUMMARY else name
