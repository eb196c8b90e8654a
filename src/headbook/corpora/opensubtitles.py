"""OPUS corpora in their Moses form, with the time-overlap filter for OpenSubtitles2018."""

import zipfile
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree

from headbook.corpora.pairs import (
    ALL,
    DAMAGE,
    Pair,
    damaged,
    decoded,
    open_bytes,
    open_zip,
    paired,
    shown,
)
from headbook.corpora.report import Reason, Report
from headbook.types import UserError

MINIMUM_OVERLAP = 0.9
"""Least relative overlap of two subtitles' times, as in the paper's filter."""

Link = tuple[str, str, str]
"""Source document, target document, and the sentences linked (`1 2;3`)."""


def read(files: dict[str, Path], target: str, report: Report) -> dict[str, Iterable[Pair]]:
    """All pairs of part `moses` (a zip); with part `alignment`, only those that overlap enough."""
    moses = files["moses"]
    with open_zip(moses) as archive:
        members = [_member(moses, archive, side) for side in ("en", target)]
        ids = _member(moses, archive, "ids") if "alignment" in files else None
    pairs = _sides(moses, members)
    if ids:
        pairs = _overlapping(pairs, _links(moses, ids), _overlaps(files["alignment"]), report)
    return {ALL: shown(pairs, moses.name)}


def _member(path: Path, archive: zipfile.ZipFile, suffix: str) -> str:
    names = [name for name in archive.namelist() if name.endswith(f".{suffix}")]
    if len(names) != 1:
        raise UserError(
            f"{path} holds {len(names)} files ending in .{suffix} where one is expected: is it the "
            "Moses download of OPUS for this language pair?"
        )
    return names[0]


def _member_lines(path: Path, member: str) -> Iterator[str]:
    with open_zip(path) as archive, archive.open(member) as stream:
        yield from decoded(stream, f"{path}:{member}")


def _sides(path: Path, members: list[str]) -> Iterator[Pair]:
    left, right = (_member_lines(path, member) for member in members)
    return paired(left, right, (f"{path}:{members[0]}", f"{path}:{members[1]}"))


def _links(path: Path, member: str) -> Iterator[Link]:
    """Each line of the .ids file: documents and sentence numbers of the pair on that line."""
    for number, line in enumerate(_member_lines(path, member), start=1):
        columns = line.split("\t")
        if len(columns) != 4:
            raise UserError(
                f"{path}:{member}, line {number}: {len(columns)} columns where 4 are expected: "
                "fetch the corpus again"
            )
        yield columns[0], columns[1], f"{columns[2]};{columns[3]}"


def _overlaps(path: Path) -> Iterator[tuple[Link, float]]:
    """Each link of the alignment file with its `overlap`, 0 where none is given.

    Elements are dropped as soon as they are read, so the whole file never stands in memory.
    """
    try:
        with open_bytes(path) as stream:
            documents = ("", "")
            for event, element in ElementTree.iterparse(stream, events=("start", "end")):
                if element.tag == "linkGrp":
                    documents = element.get("fromDoc", ""), element.get("toDoc", "")
                    if event == "end":
                        element.clear()
                elif element.tag == "link" and event == "end":
                    link = (*documents, element.get("xtargets", ""))
                    yield link, float(element.get("overlap") or 0)
    except DAMAGE as error:
        raise damaged(str(path), error) from None
    except (ElementTree.ParseError, ValueError) as error:
        raise UserError(
            f"{path}: not a readable alignment file ({error}): delete it and fetch again"
        ) from None


def _overlapping(
    pairs: Iterable[Pair],
    links: Iterable[Link],
    overlaps: Iterator[tuple[Link, float]],
    report: Report,
) -> Iterator[Pair]:
    """The pairs whose link overlaps enough. Both files are in one order; the alignment also has
    links with an empty side, which the Moses files leave out.
    """
    for number, (pair, wanted) in enumerate(zip_longest(pairs, links), start=1):
        overlap = next((value for link, value in overlaps if link == wanted), None)
        if pair is None or wanted is None or overlap is None:
            raise UserError(
                f"pair {number:,} ({' '.join(wanted or ('no line in the .ids file',))}) is not in "
                "the Moses files and the alignment alike, in one order: fetch both of one version"
            )
        if overlap >= MINIMUM_OVERLAP:
            yield pair
        else:
            report.read[ALL] += 1
            report.add(ALL, Reason.LOW_OVERLAP)
