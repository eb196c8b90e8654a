"""WMT training data as statmt.org distributes it: archives of line-aligned files, and tables."""

import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from headbook.corpora.pairs import (
    ALL,
    DAMAGE,
    Pair,
    damaged,
    decoded,
    open_zip,
    paired,
    shown,
    table_rows,
    text_lines,
)
from headbook.corpora.report import Report
from headbook.types import UserError

Opened = tarfile.TarFile | zipfile.ZipFile


def read(files: dict[str, Path], target: str, report: Report) -> dict[str, Iterable[Pair]]:
    """All pairs of all files, English first, in the order of the registry's entry."""
    parts = (_pairs(path, target, report) for path in files.values())
    return {ALL: shown(chain.from_iterable(parts), f"WMT en-{target}")}


def _pairs(path: Path, target: str, report: Report) -> Iterator[Pair]:
    if path.name.endswith((".tsv.gz", ".tsv")):
        yield from _table(path, target, report)
        return
    try:
        with _opened(path) as archive:
            yield from _aligned(path, archive, target)
    except DAMAGE as error:
        raise damaged(str(path), error) from None


def _aligned(path: Path, archive: Opened, target: str) -> Iterator[Pair]:
    source, other = (_member(path, archive, target, side) for side in ("en", target))
    sides = (decoded(_stream(archive, name), f"{path}:{name}") for name in (source, other))
    return paired(*sides, (f"{path}:{source}", f"{path}:{other}"))


def _table(path: Path, target: str, report: Report) -> Iterator[Pair]:
    """A table named by its column order: `….en-fr.tsv.gz` or `….de-en.tsv.gz`."""
    rows = table_rows(text_lines(path), ALL, report)
    if f"{target}-en." in path.name:
        return ((right, left) for left, right in rows)
    return rows


def _opened(path: Path) -> Opened:
    return open_zip(path) if zipfile.is_zipfile(path) else tarfile.open(path)


def _names(archive: Opened) -> list[str]:
    return archive.namelist() if isinstance(archive, zipfile.ZipFile) else archive.getnames()


def _stream(archive: Opened, name: str) -> Iterable[bytes]:
    if isinstance(archive, zipfile.ZipFile):
        return archive.open(name)
    stream = archive.extractfile(name)
    assert stream is not None
    return stream


def _member(path: Path, archive: Opened, target: str, side: str) -> str:
    """The one file of the language pair that ends in the side's language.

    The pair is written `de-en` in most archives, `en_ru` in Yandex's.
    """
    pairs = (f"{target}-en", f"en-{target}", f"en_{target}")
    found = [
        name
        for name in _names(archive)
        if name.endswith(f".{side}") and any(pair in name.rpartition("/")[2] for pair in pairs)
    ]
    if len(found) != 1:
        raise UserError(
            f"{path} holds {len(found)} files for en-{target} ending in .{side} where one is "
            "expected: is it the archive the registry names?"
        )
    return found[0]
