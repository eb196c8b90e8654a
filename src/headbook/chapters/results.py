"""Published results of pages that have not moved: tables by profile, in their former names."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import old_results
from headbook import tables as files
from headbook.chapters.chapter import Tables
from headbook.claims.ledger import PROFILES
from headbook.runs import record
from headbook.types import UserError

CLAIM = ("claim", "model", "corpus", "target", "seed")
"""Columns that name a row of a page's claims."""


@dataclass(frozen=True)
class Published:
    """One page's tables at one profile, and what made them."""

    study: str
    profile: str
    tables: Tables
    run: dict[str, Any]


def machine(hardware: Mapping[str, Any]) -> str:
    """The accelerator a run had, or its processor, in words."""
    gpu, cores = hardware.get("gpu"), hardware.get("cores", "unknown")
    return gpu or f"{cores} cores, {hardware.get('processor', 'processor unknown')}"


def published(study: str, profile: str = "laptop", root: Path | None = None) -> Published:
    """The published tables; UserError where the page was never published at that profile."""
    run = old_results.made(study, profile, root)
    if run is None:
        raise UserError(
            f"{study} has no published results at profile {profile}; "
            f"`headbook publish {study} --profile {profile}` makes them"
        )
    text = old_results.text_columns(study, profile, root)
    tables = {
        name: pd.read_csv(StringIO(_csv(table)), dtype=dict.fromkeys(text[name], str))
        for name, table in old_results.old_cells(study, profile, root).items()
    }
    return Published(study, profile, tables, {**run, "text_columns": text})


def largest_published(study: str, root: Path | None = None) -> Published | None:
    """The page at the largest profile it was published at; None where it never was."""
    found = (name for name in reversed(PROFILES) if old_results.made(study, name, root))
    return next((published(study, name, root) for name in found), None)


def write(
    study: str, profile: str, tables: Tables, described: dict[str, Any], root: Path | None = None,
    stay: Collection[str] = (),
) -> Path:  # fmt: skip
    """Writes tables, and beside them `described`, with commit, versions, machine and date.

    An earlier publication is replaced, when all is written, but for its rows of the claims in
    `stay`: these go on under the circumstances of that publication, which the record names.
    """
    kept = {
        "study": study, **_circumstances(),
        # A column of "+1" and "-1" would come back as numbers.
        "text_columns": {name: files.text_columns(table) for name, table in tables.items()},
        **described,
    }  # fmt: skip
    cells = {name: _cells(table) for name, table in tables.items()}
    before = old_results.made(study, profile, root)
    if stay and "claims" in cells and before:
        claims = old_results.old_table(study, profile, "claims", root)
        old = claims[claims["claim"].isin(stay)]
        cells["claims"] = pd.concat([cells["claims"], old]).fillna("")
        kept["added"] = _records_of(sorted(set(old["claim"])), before)
    return _save(study, profile, cells, kept, root)


def _records_of(claims: Sequence[str], before: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What made the rows of claims of an earlier publication: itself, or one before it."""
    earlier = [each for each in before.get("added", []) if "claims" in each]
    known = {claim for each in earlier for claim in each["claims"]}
    if new := [claim for claim in claims if claim not in known]:
        made = ("commit", "versions", "hardware", "date")
        earlier.append({"claims": new, **{name: before[name] for name in made}})
    return earlier


def add(
    study: str, profile: str, tables: Tables, model: str, described: dict[str, Any],
    root: Path | None = None,
) -> Path:  # fmt: skip
    """Adds one model's rows to published tables; the rows of others stay to the letter.

    Its rows are those of its name, and of parts of it ("minilm, encoder"); those of an earlier
    publication are replaced. A new column is empty in the rows that stay. Of a table without a
    column `model` the rows of its corpus are added; one without either is left alone. In the
    record, `added` says how and when these rows were measured.
    UserError where the page was never published, and for a table that it was published without.
    """
    before = published(study, profile, root)
    cells = old_results.old_cells(study, profile, root)
    text = before.run.get("text_columns", {})
    for name, table in tables.items():
        if not {"model", "corpus"} & set(table):
            continue
        if name not in cells:
            raise UserError(f"no table {name!r} is published of {study}: publish the whole page")
        if "model" in table:
            new = _cells(table[_of(table, model)])
            known = cells[name]
            others = known[~_of(known, model)] if "model" in known else known
        else:
            new = _cells(table)
            others = cells[name][~cells[name]["corpus"].isin(new["corpus"])]
        cells[name] = pd.concat([others, new], ignore_index=True).fillna("")
        further = set(new) - set(others)
        of_further = [each for each in files.text_columns(table) if each in further]
        text[name] = [*text.get(name, ()), *of_further]
    earlier = [each for each in before.run.get("added", []) if each.get("model") != model]
    record_of = {"model": model, **_circumstances(), **described}
    kept = before.run | {"text_columns": text, "added": [*earlier, record_of]}
    return _save(study, profile, cells, kept, root)


def _of(table: pd.DataFrame, model: str) -> pd.Series:
    """Rows of the model or of a part of it."""
    names = table["model"].astype(str)
    return (names == model) | names.str.startswith(f"{model}, ")


def extend(
    study: str, profile: str, tables: Tables, keys: Sequence[str], given: Mapping[str, Any],
    described: dict[str, Any], root: Path | None = None,
) -> Path:  # fmt: skip
    """Adds to published tables what was measured with the parameters `given` alone.

    Rows are one measurement where they agree in all of `keys` that the table has, and in what names
    a claim. One that differs anywhere takes the place of the published one, all its rows; others
    stay to the letter. A new table is added; a new column is empty in the rows that stay.
    In the record, `added` says with which parameters and when these rows were measured. UserError
    where the page was never published, and for a table that lacks a published column.
    """
    before = published(study, profile, root)
    cells = old_results.old_cells(study, profile, root)
    text = before.run.get("text_columns", {})
    for name, table in tables.items():
        new = _cells(table)
        known = cells.get(name, new.iloc[:0])
        if lacking := set(known) - set(new):
            raise UserError(
                f"{study} has a column {min(lacking)!r} in {name!r}: publish the whole page"
            )
        further = [each for each in new if each not in known]
        known = known.reindex(columns=[*known, *further], fill_value="")
        new = new[list(known)]
        same = [each for each in (*keys, *CLAIM) if each in new]
        there, named = set(_rows(known)), _rows(new[same])
        differ = {key for key, row in zip(named, _rows(new), strict=True) if row not in there}
        stays = [key not in differ for key in _rows(known[same])]
        comes = [key in differ for key in named]
        cells[name] = pd.concat([known[stays], new[comes]], ignore_index=True)
        of_further = [each for each in files.text_columns(table) if each in further]
        text |= {name: [*text[name], *of_further] if name in text else files.text_columns(table)}
    earlier = [each for each in before.run.get("added", []) if each.get("given") != given]
    record_of = {"given": dict(given), **_circumstances(), **described}
    kept = before.run | {"text_columns": text, "added": [*earlier, record_of]}
    return _save(study, profile, cells, kept, root)


def _rows(table: pd.DataFrame) -> list[tuple]:
    """Its rows; of a table without columns as many empty ones."""
    return [tuple(row) for row in table.to_numpy().tolist()]


def _circumstances() -> dict[str, Any]:
    return {"commit": record.commit(), "versions": record.versions(),
            "hardware": record.hardware(), "date": record.now()}  # fmt: skip


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, lineterminator="\n")


def _cells(table: pd.DataFrame) -> pd.DataFrame:
    """Every cell as it is published."""
    return files.read_cells(files.csv(table))


def _save(
    study: str, profile: str, cells: Tables, kept: Mapping[str, Any], root: Path | None
) -> Path:
    """Tables and record take the place of those of the profile."""
    run = {name: value for name, value in kept.items() if name != "text_columns"}
    return old_results.save(study, profile, cells, kept["text_columns"], run, root)
