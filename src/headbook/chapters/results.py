"""Published results: a page's tables under data/results, with the record of what made them."""

import json
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import paths
from headbook.chapters.chapter import Tables
from headbook.claims.ledger import PROFILES
from headbook.runs import record
from headbook.types import UserError

CLAIM = ("claim", "model", "corpus", "target", "seed")
"""Columns that name a row of a page's claims."""
DIGITS = 5
"""Significant digits kept: the intervals of every measure are wider."""


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


def folder(study: str, profile: str, root: Path | None = None) -> Path:
    return (root or paths.RESULTS) / profile / study


def _record(study: str, profile: str, root: Path | None) -> Path:
    return folder(study, profile, root) / "run.json"


def published(study: str, profile: str = "laptop", root: Path | None = None) -> Published:
    """The published tables; UserError where the page was never published at that profile."""
    where, record_file = folder(study, profile, root), _record(study, profile, root)
    if not record_file.exists():
        raise UserError(
            f"{study} has no published results at profile {profile}; "
            f"`headbook publish {study} --profile {profile}` makes them"
        )
    run = json.loads(record_file.read_text())
    text = run.get("text_columns", {})
    tables = {
        path.stem: pd.read_csv(path, dtype=dict.fromkeys(text.get(path.stem, ()), str))
        for path in sorted(where.glob("*.csv"))
    }
    return Published(study, profile, tables, run)


def largest_published(study: str, root: Path | None = None) -> Published | None:
    """The page at the largest profile it was published at; None where it never was."""
    found = (name for name in reversed(PROFILES) if _record(study, name, root).exists())
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
        "text_columns": {name: _text_columns(table) for name, table in tables.items()},
        **described,
    }  # fmt: skip
    files = {name: _csv(table) for name, table in tables.items()}
    if stay and "claims" in files and _record(study, profile, root).exists():
        before = published(study, profile, root).run
        claims = _written(folder(study, profile, root))["claims"]
        old = claims[claims["claim"].isin(stay)]
        files["claims"] = _csv(pd.concat([_cells(files["claims"]), old]).fillna(""))
        kept["added"] = _records_of(sorted(set(old["claim"])), before)
    return _replace(folder(study, profile, root), files, kept)


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
    cells = _written(folder(study, profile, root))
    text = before.run.get("text_columns", {})
    for name, table in tables.items():
        if not {"model", "corpus"} & set(table):
            continue
        if name not in cells:
            raise UserError(f"no table {name!r} is published of {study}: publish the whole page")
        if "model" in table:
            new = _cells(_csv(table[_of(table, model)]))
            known = cells[name]
            others = known[~_of(known, model)] if "model" in known else known
        else:
            new = _cells(_csv(table))
            others = cells[name][~cells[name]["corpus"].isin(new["corpus"])]
        cells[name] = pd.concat([others, new], ignore_index=True).fillna("")
        further = set(new) - set(others)
        of_further = [each for each in _text_columns(table) if each in further]
        text[name] = [*text.get(name, ()), *of_further]
    earlier = [each for each in before.run.get("added", []) if each.get("model") != model]
    record_of = {"model": model, **_circumstances(), **described}
    kept = before.run | {"text_columns": text, "added": [*earlier, record_of]}
    return _replace(folder(study, profile, root), {n: _csv(t) for n, t in cells.items()}, kept)


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
    cells = _written(folder(study, profile, root))
    text = before.run.get("text_columns", {})
    for name, table in tables.items():
        new = _cells(_csv(table))
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
        of_further = [each for each in _text_columns(table) if each in further]
        text |= {name: [*text[name], *of_further] if name in text else _text_columns(table)}
    earlier = [each for each in before.run.get("added", []) if each.get("given") != given]
    record_of = {"given": dict(given), **_circumstances(), **described}
    kept = before.run | {"text_columns": text, "added": [*earlier, record_of]}
    return _replace(folder(study, profile, root), {n: _csv(t) for n, t in cells.items()}, kept)


def _rows(table: pd.DataFrame) -> list[tuple]:
    """Its rows; of a table without columns as many empty ones."""
    return [tuple(row) for row in table.to_numpy().tolist()]


def _circumstances() -> dict[str, Any]:
    return {"commit": record.commit(), "versions": record.versions(),
            "hardware": record.hardware(), "date": record.now()}  # fmt: skip


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format=f"%.{DIGITS}g", lineterminator="\n")


def _cells(csv: str) -> pd.DataFrame:
    """Every cell as it is written."""
    return pd.read_csv(StringIO(csv), dtype=str, keep_default_na=False)


def _written(where: Path) -> Tables:
    """The tables of a folder, every cell as it is written."""
    return {path.stem: _cells(path.read_text("utf-8")) for path in sorted(where.glob("*.csv"))}


def _replace(where: Path, files: Mapping[str, str], kept: dict[str, Any]) -> Path:
    """Tables and record take the place of earlier ones, when all is written."""
    aside = where.with_suffix(".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, csv in files.items():
        (aside / f"{name}.csv").write_text(csv, "utf-8")
    (aside / "run.json").write_text(as_text(kept))
    shutil.rmtree(where, ignore_errors=True)
    aside.rename(where)
    return where


def as_text(run: Mapping[str, Any]) -> str:
    """A record as JSON: one line per entry, and one per element of a list of records."""
    entries = (f" {json.dumps(name)}: {_entry(value)}" for name, value in run.items())
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _entry(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(f"  {json.dumps(each)}" for each in value) + "\n ]"
    return json.dumps(value)


def _text_columns(table: pd.DataFrame) -> list[str]:
    return list(table.select_dtypes(exclude=["number", "bool"]).columns)
