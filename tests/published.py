"""Planted results: tables of pages that have not moved, in a folder of results."""

from pathlib import Path
from typing import Any

import pandas as pd

from headbook import old_results, tables


def plant(
    root: Path, profile: str, study: str, found: dict[str, pd.DataFrame] | None = None, **run: Any
) -> Path:
    """Adds these tables to those of a page at a profile, and what made them; returns the folder."""
    cells = old_results.old_cells(study, profile, root)
    text = old_results.text_columns(study, profile, root)
    for name, table in (found or {}).items():
        cells[name] = tables.read_cells(table.to_csv(index=False))
        text[name] = tables.text_columns(table)
    return old_results.save(study, profile, cells, text, run, root)
