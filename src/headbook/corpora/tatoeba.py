"""Tatoeba as manythings.org exports it: a zip with one table of English and another language."""

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from headbook.corpora.pairs import ALL, Pair, decoded, open_zip, table_rows
from headbook.corpora.report import Report
from headbook.types import UserError


def read(files: dict[str, Path], target: str, report: Report) -> dict[str, Iterable[Pair]]:
    """All pairs of the export: columns English, translation, attribution."""
    (path,) = files.values()
    return {ALL: table_rows(_lines(path), ALL, report)}


def _lines(path: Path) -> Iterator[str]:
    with open_zip(path) as archive, archive.open(_table(path, archive)) as stream:
        yield from decoded(stream, f"{path}:{stream.name}")


def _table(path: Path, archive: zipfile.ZipFile) -> str:
    names = [name for name in archive.namelist() if name.endswith(".txt") and name[0] != "_"]
    if len(names) != 1:
        raise UserError(
            f"{path} holds {len(names)} tables where one is expected ({', '.join(names)}): is it "
            "the export of manythings.org/anki?"
        )
    return names[0]
