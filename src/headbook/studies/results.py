"""Published results: a study's tables under data/results, with the record of what made them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import paths
from headbook.runs import record
from headbook.runs.canonical import plain
from headbook.studies.config import Config
from headbook.types import UserError

Tables = dict[str, pd.DataFrame]
DIGITS = 5
"""Significant digits kept: the intervals of every measure are wider."""


@dataclass(frozen=True)
class Published:
    """One study's tables at one profile, and what made them."""

    study: str
    profile: str
    tables: Tables
    run: dict[str, Any]


def folder(study: str, profile: str, root: Path | None = None) -> Path:
    return (root or paths.RESULTS) / profile / study


def published(study: str, profile: str = "laptop", root: Path | None = None) -> Published:
    """The published tables; UserError where the study was never published at that profile."""
    where = folder(study, profile, root)
    if not (where / "run.json").exists():
        raise UserError(
            f"{study} has no published results at profile {profile}; "
            f"`headbook publish {study} --profile {profile}` makes them"
        )
    run = json.loads((where / "run.json").read_text())
    text = run.get("text_columns", {})
    tables = {
        path.stem: pd.read_csv(path, dtype=dict.fromkeys(text.get(path.stem, ()), str))
        for path in sorted(where.glob("*.csv"))
    }
    return Published(study, profile, tables, run)


def publish(
    study: str,
    config: Config,
    tables: Tables,
    made_by: list[dict[str, Any]],
    root: Path | None = None,
) -> Path:
    """Writes the tables and their record; files of an earlier publication are replaced."""
    where = folder(study, config.profile, root)
    where.mkdir(parents=True, exist_ok=True)
    for old in where.glob("*.csv"):
        old.unlink()
    for name, table in tables.items():
        table.to_csv(where / f"{name}.csv", index=False, float_format=f"%.{DIGITS}g")
    kept = {
        "study": study, "config": plain(config), "commit": record.commit(),
        "versions": record.versions(), "hardware": record.hardware(), "date": record.now(),
        "duration": f"{sum(made.get('seconds', 0) for made in made_by) / 60:.0f} min",
        # A column of "+1" and "-1" would come back as numbers.
        "text_columns": {name: _text_columns(table) for name, table in tables.items()},
        "runs": made_by,
    }  # fmt: skip
    (where / "run.json").write_text(json.dumps(kept, indent=1) + "\n")
    return where


def _text_columns(table: pd.DataFrame) -> list[str]:
    return list(table.select_dtypes(exclude=["number", "bool"]).columns)
