"""Run once: data/results/<profile>/<page> becomes data/results/<number>, with tidy columns.

    .venv/bin/python data/migrate.py [FOLDER]

FOLDER is data/results by default. What the tables hold stays as it is, cell by cell.
"""

import json
import shutil
import sys
from pathlib import Path

from headbook import paths, tables
from headbook.old_results import SUMMARY, laid_out

PROFILES = ("smoke", "quick", "laptop", "full", "released")


def migrate(root: Path) -> None:
    """Writes all tables of a folder of results anew and removes the former folders."""
    old = sorted(file.parent for name in PROFILES for file in root.glob(f"{name}/*/run.json"))
    for study in sorted({where.name for where in old}):
        mine = {where.parent.name: where for where in old if where.name == study}
        every, made = {}, {}
        for profile, where in mine.items():
            run = json.loads((where / "run.json").read_text("utf-8"))
            found = {file.stem: tables.read_cells(file.read_text("utf-8"))
                     for file in sorted(where.glob("*.csv"))}  # fmt: skip
            assert SUMMARY not in found, f"{where} has a table {SUMMARY} already"
            every[profile], made[profile] = (found, run.pop("text_columns")), run
        files, listed = laid_out(every)
        with tables.locked(study, root):
            tables.replace(study, files, {"tables": listed, "made": made}, root)
    for name in PROFILES:
        shutil.rmtree(root / name, ignore_errors=True)


if __name__ == "__main__":
    migrate(Path(sys.argv[1]) if len(sys.argv) > 1 else paths.RESULTS)
