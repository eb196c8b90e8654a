"""Public downloads as their publishers pack them: archives of line-aligned files, and tables."""

import gzip
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from tqdm import tqdm

from headbook.corpora.pairs import Dropped, Pair, Reason, paired, table_rows
from headbook.text.files import text_lines
from headbook.types import UserError

MINIMUM_OVERLAP = 0.9
"""Least relative overlap of two subtitles' times, as in the paper's filter."""
DAMAGE = (OSError, EOFError, zlib.error, zipfile.BadZipFile)


def read(files: Mapping[str, Path], target: str, dropped: Dropped) -> Iterator[Pair]:
    """All pairs of a download, English first, in the order of the registry's entry.

    A file is a tab-separated table (named by its column order, `….en-fr.tsv.gz`), or a zip or tar
    archive. That of part `table` holds one table (manythings.org), any other one file a side
    (OPUS, statmt.org). With a part `alignment`, OPUS's XML, only those pairs are given whose times
    overlap enough.
    """
    for part, path in files.items():
        if part == "alignment":
            continue
        with TemporaryDirectory(dir=path.parent) as folder:
            if ".tsv" in path.name:
                pairs = table_rows(text_lines(path), dropped)
            elif part == "table":
                table = _member(path, _unpacked(path, folder), ".txt", [""])
                pairs = table_rows(text_lines(table), dropped)
            else:
                pairs = _aligned(path, _unpacked(path, folder), target, files, dropped)
            if f"{target}-en.tsv" in path.name:
                pairs = ((right, left) for left, right in pairs)
            yield from tqdm(pairs, desc=f"reading {path.name}", unit=" pairs", mininterval=1)


def _aligned(
    path: Path, unpacked: list[Path], target: str, files: Mapping[str, Path], dropped: Dropped
) -> Iterator[Pair]:
    # The language pair is written `de-en` in most archives, `en_ru` in Yandex's.
    named = [f"{target}-en", f"en-{target}", f"en_{target}"]
    sides = [_member(path, unpacked, f".{side}", named) for side in ("en", target)]
    pairs = paired(*map(text_lines, sides), (str(sides[0]), str(sides[1])))
    if "alignment" not in files:
        return pairs
    links = text_lines(_member(path, unpacked, ".ids", named))
    return _overlapping(pairs, links, _overlaps(files["alignment"]), dropped)


def _unpacked(path: Path, folder: str) -> list[Path]:
    try:
        shutil.unpack_archive(path, folder, filter=None if path.suffix == ".zip" else "data")
    except DAMAGE as error:
        raise _damaged(path, error) from None
    return list(Path(folder).rglob("*"))


def _damaged(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: damaged file ({error}): delete it and fetch it again")


def _member(path: Path, unpacked: Iterable[Path], suffix: str, named: Iterable[str]) -> Path:
    """The one file of that suffix whose name has one of `named`; `_about.txt` is no text."""
    ending = [file for file in unpacked if file.suffix == suffix and file.name[0] != "_"]
    found = [file for file in ending if any(each in file.name for each in named)]
    if len(found) != 1:
        raise UserError(
            f"{path} holds {len(found)} files ending in {suffix} where one is expected: is it the "
            "archive the registry names?"
        )
    return found[0]


def _overlapping(
    pairs: Iterable[Pair],
    links: Iterable[str],
    overlaps: Iterator[tuple[str, float]],
    dropped: Dropped,
) -> Iterator[Pair]:
    """The pairs whose link overlaps enough. Both files are in one order; the alignment also has
    links with an empty side, which the Moses files leave out.
    """
    for number, (pair, wanted) in enumerate(zip_longest(pairs, links), start=1):
        overlap = next((value for link, value in overlaps if link == wanted), None)
        if pair is None or overlap is None:
            raise UserError(
                f"pair {number:,} ({wanted or 'no line in the .ids file'}) is not in the Moses "
                "files and the alignment alike, in one order: fetch both of one version"
            )
        if overlap >= MINIMUM_OVERLAP:
            yield pair
        else:
            dropped[Reason.LOW_OVERLAP] += 1


def _overlaps(path: Path) -> Iterator[tuple[str, float]]:
    """Each link of the alignment as a line of the .ids file: documents and sentence numbers; with
    its `overlap`, 0 where none is given. Elements are dropped as soon as they are read.
    """
    documents = ""
    try:
        with gzip.open(path) as stream:
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                if element.tag == "linkGrp":
                    documents = f"{element.get('fromDoc')}\t{element.get('toDoc')}"
                    if event == "end":
                        element.clear()
                elif element.tag == "link" and event == "end":
                    sentences = element.get("xtargets", "").replace(";", "\t")
                    yield f"{documents}\t{sentences}", float(element.get("overlap") or 0)
    except (*DAMAGE, ElementTree.ParseError, ValueError) as error:
        raise _damaged(path, error) from None
