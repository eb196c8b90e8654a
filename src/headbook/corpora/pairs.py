"""Sentence pairs from text files: decoding, unequal sides, and what is dropped."""

import codecs
import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import zip_longest
from pathlib import Path

from tqdm import tqdm

from headbook.corpora.report import Reason, Report
from headbook.types import UserError

MAXIMUM_TOKENS = 200
"""White-space tokens a side, as in the paper's code; longer pairs are dropped and counted."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs; `source[i]` is translated by `target[i]`."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Pair]:
        return iter(zip(self.source, self.target, strict=True))

    def first(self, count: int | None) -> "Pairs":
        """The first `count` pairs, all of them when `count` is None."""
        return Pairs(self.source[:count], self.target[:count])

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> "Pairs":
        """Pairs from (source, target) tuples."""
        both = list(pairs)
        return cls(tuple(source for source, _ in both), tuple(target for _, target in both))


def open_bytes(path: Path) -> BufferedIOBase:
    """A plain or .gz file for reading; UserError when it is not there or cannot be opened."""
    try:
        return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: fetch the corpus again with `headbook corpora fetch`, or put the "
            "file there"
        ) from None
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}): put a text file there"
        ) from None


def open_zip(path: Path) -> zipfile.ZipFile:
    """A zip archive; UserError when it is damaged."""
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise UserError(
            f"{path}: not a readable zip file ({error}): delete it and fetch again"
        ) from None


DAMAGE = (gzip.BadGzipFile, EOFError, zlib.error, zipfile.BadZipFile, tarfile.ReadError)
"""Errors raised by reading a damaged or cut-off file."""


def damaged(name: str, error: Exception) -> UserError:
    """The user's error for a file that cannot be unpacked."""
    return UserError(f"{name}: damaged file ({error}): delete it and fetch or copy it again")


def decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of text without their line ends; UserError at the first line that is not UTF-8, or
    where the packed file breaks off.
    """
    number = 0
    try:
        # Only \n ends a line: str.splitlines would also cut at U+2028 and unalign the sides.
        for line in lines:
            number += 1
            yield line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}, line {number}: not valid UTF-8 at byte {error.start + 1} of the line: "
            "re-encode the file (for example `iconv -t utf-8`) or delete the line on both sides"
        ) from None
    except DAMAGE as error:
        raise damaged(f"{name}, after line {number}", error) from None


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a plain or .gz text file; UserError names the file and line."""
    with open_bytes(path) as stream:
        yield from decoded(stream, str(path))


def plain_lines(path: Path) -> Iterator[str]:
    """The lines of a text file as editors write them, without a byte-order mark.

    UserError for UTF-16, and for a NUL byte, which no text holds.
    """
    with open_bytes(path) as stream:
        yield from decoded(_without_mark(stream, path), str(path))


def _without_mark(lines: Iterable[bytes], path: Path) -> Iterator[bytes]:
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UserError(
                f"{path}: UTF-16, not UTF-8: save it as UTF-8 "
                "(for example `iconv -f utf-16 -t utf-8`)"
            )
        if b"\0" in line:
            raise UserError(
                f"{path}, line {number}: a NUL byte: save the file as UTF-8 if it is UTF-16, "
                "or delete the byte"
            )
        yield line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def paired(left: Iterable[str], right: Iterable[str], names: Pair) -> Iterator[Pair]:
    """Line-aligned sides as pairs; UserError naming both counts when their lengths differ."""
    common = 0
    left, right = iter(left), iter(right)
    for source, target in zip_longest(left, right):
        if source is None or target is None:
            break
        common += 1
        yield source, target
    else:
        return
    counts = [
        common + (side is not None) + sum(1 for _ in rest)
        for side, rest in ((source, left), (target, right))
    ]
    raise UserError(
        f"{names[0]} has {counts[0]:,} lines but {names[1]} has {counts[1]:,}: line i must "
        "translate line i, so find where they part and mend one of them"
    )


def read_sides(source: Path, target: Path) -> Iterator[Pair]:
    """Two line-aligned files as pairs."""
    return paired(plain_lines(source), plain_lines(target), (str(source), str(target)))


def table_rows(lines: Iterable[str], split: str, report: Report) -> Iterator[Pair]:
    """The first two of tab-separated columns; rows without a tab are dropped and counted."""
    for line in lines:
        left, tab, right = line.partition("\t")
        if tab:
            yield left, right.partition("\t")[0]
        else:
            report.read[split] += 1
            report.add(split, Reason.NOT_A_PAIR)


def shown(pairs: Iterable[Pair], what: str) -> Iterator[Pair]:
    """The same pairs, counted on a progress bar."""
    yield from tqdm(pairs, desc=f"reading {what}", unit=" pairs", mininterval=1)


def fault(pair: Pair) -> Reason | None:
    """Why a pair cannot be used, or None."""
    lengths = [len(side.split()) for side in pair]
    if min(lengths) == 0:
        return Reason.EMPTY_SIDE
    return Reason.OVER_LONG if max(lengths) > MAXIMUM_TOKENS else None


def usable(pairs: Iterable[Pair], split: str, report: Report) -> Iterator[Pair]:
    """The pairs that can be used, white space at the ends removed; the others are counted."""
    for source, target in pairs:
        report.read[split] += 1
        reason = fault((source, target))
        if reason:
            report.add(split, reason)
        else:
            yield source.strip(), target.strip()


Reader = Callable[[dict[str, Path], str, Report], dict[str, Iterable[Pair]]]
"""Reads a corpus' files, by part, with its target language: pairs by split, or all as `ALL`."""

ALL = "all"
"""The split of pairs that have no official split."""


def read_splits(files: dict[str, Path], target: str, report: Report) -> dict[str, Iterable[Pair]]:
    """Files named by split and language (`train.en`, `train.de`) or `train.tsv`, as they stand."""
    names = dict.fromkeys(part.rpartition(".")[0] for part in files)
    return {name: _split(files, name, target, report) for name in names}


def _split(files: dict[str, Path], name: str, target: str, report: Report) -> Iterable[Pair]:
    if f"{name}.tsv" in files:
        return table_rows(plain_lines(files[f"{name}.tsv"]), name, report)
    return read_sides(files[f"{name}.en"], files[f"{name}.{target}"])
