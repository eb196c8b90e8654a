"""Every published cell of the second edition is in the third edition's tables, unchanged.

For the one commit that moves the tables; goes with `data/migrate.py`. The former tables are those
of the newest commit that still has them.
"""

import csv
import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headbook import old_results, paths, tables


def git(*arguments: str) -> bytes:
    return subprocess.run(
        ["git", *arguments], cwd=paths.REPOSITORY, capture_output=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/results as it was before it moved."""
    last = git("rev-list", "-1", "HEAD", "--", "data/results/released").decode().strip()
    there = git("ls-tree", last, "data/results/released").strip()
    commit = last if there else git("rev-parse", f"{last}^").decode().strip()
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit, "data/results"))) as archive:
        archive.extractall(folder, filter="data")
    return folder / "data" / "results"


def lines(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def former(before: Path) -> Iterator[tuple[str, str, Path]]:
    for file in sorted(before.glob("*/*/*.csv")):
        yield file.parts[-3], file.parts[-2], file


def test_every_cell_is_there_unchanged(before: Path) -> None:
    """By the names and the profile's rows as the rule has them, read with `csv` alone."""
    cells = 0
    for profile, study, file in former(before):
        name = "summary" if file.stem == "claims" else file.stem
        now = paths.RESULTS / study[:2] / f"{name}.csv"
        header, *rows = lines(now.read_text("utf-8"))
        columns, *old = lines(file.read_text("utf-8"))
        shared = header[0] == "profile"
        if shared:
            rows = [row[1:] for row in rows if row[0] == profile]
            header = header[1:]
        named = old_results.new_columns(columns)
        order = [header.index(named[column]) for column in columns]
        assert [[row[place] for place in order] for row in rows] == old, file
        assert shared or set(header) == set(named.values())
        cells += sum(map(len, old))
    assert cells > 300_000


def test_nothing_was_added(before: Path) -> None:
    """As many filled cells as there were, but for the column that says which profile."""
    were = sum(cell != "" for _, _, file in former(before)
               for row in lines(file.read_text("utf-8"))[1:] for cell in row)  # fmt: skip
    are = 0
    for file in paths.RESULTS.glob("*/*.csv"):
        header, *rows = lines(file.read_text("utf-8"))
        both = header[0] == "profile"
        are += sum(cell != "" for row in rows for cell in row[both:])
    assert are == were


def test_an_interval_is_called_after_its_number(before: Path) -> None:
    """An `x_low` has an `x`, but for page 36, whose rows name what the interval is of."""
    lone = set()
    for file in sorted(paths.RESULTS.glob("*/*.csv")):
        (header,) = lines(file.read_text("utf-8").split("\n", 1)[0])
        ends = [name for name in header if name == "low" or name.endswith("_low")]
        lone |= {(file.parent.name, file.stem, name) for name in ends if name[:-4] not in header}
    assert lone == {("36", "gains", "low"), ("36", "explained", "null_low")}


def test_the_former_tables_and_records_are_read_as_they_were(before: Path) -> None:
    for file in sorted(before.glob("*/*/run.json")):
        profile, study = file.parts[-3:-1]
        run = json.loads(file.read_text("utf-8"))
        assert old_results.text_columns(study, profile) == run.pop("text_columns")
        assert old_results.made(study, profile) == run
        found = old_results.old_cells(study, profile)
        was = {each.stem: tables.read_cells(each.read_text("utf-8"))
               for each in file.parent.glob("*.csv")}  # fmt: skip
        assert found.keys() == was.keys()
        assert all(found[name].equals(was[name]) for name in was)


def test_every_digest_is_right_and_no_table_is_unlisted() -> None:
    assert tables.check() > 60_000
