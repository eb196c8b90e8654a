"""Published results: a page's tables under data/results, with the record of what made them."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import paths
from headbook.chapters.chapter import Tables
from headbook.claims.ledger import PROFILES
from headbook.runs import record
from headbook.types import UserError

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
    study: str, profile: str, tables: Tables, described: dict[str, Any], root: Path | None = None
) -> Path:
    """Writes tables, and beside them `described`, with commit, versions, machine and date.

    An earlier publication is replaced, when all is written.
    """
    where = folder(study, profile, root)
    aside = where.with_suffix(".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, table in tables.items():
        table.to_csv(aside / f"{name}.csv", index=False, float_format=f"%.{DIGITS}g")
    kept = {
        "study": study, "commit": record.commit(), "versions": record.versions(),
        "hardware": record.hardware(), "date": record.now(),
        # A column of "+1" and "-1" would come back as numbers.
        "text_columns": {name: _text_columns(table) for name, table in tables.items()},
        **described,
    }  # fmt: skip
    (aside / "run.json").write_text(json.dumps(kept, indent=1) + "\n")
    shutil.rmtree(where, ignore_errors=True)
    aside.rename(where)
    return where


def _text_columns(table: pd.DataFrame) -> list[str]:
    return list(table.select_dtypes(exclude=["number", "bool"]).columns)
