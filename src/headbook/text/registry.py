"""The corpora headbook knows: `data/corpora.toml` as objects, and where each one is now."""

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from headbook import paths
from headbook.types import UserError

UNKNOWN = "unknown"


class CorpusKind(StrEnum):
    PARALLEL = "parallel"
    TEST = "test"
    TREEBANK = "treebank"
    TEXT = "text"
    COREFERENCE = "coreference"
    RATED = "rated"
    MIXTURE = "mixture"
    GENERATED = "generated"


ALONE = (CorpusKind.TREEBANK, CorpusKind.TEXT, CorpusKind.COREFERENCE, CorpusKind.RATED)
"""Corpora of one language: no sentence has a translation."""


class Place(StrEnum):
    MIRROR = "mirror"
    DOWNLOADED = "downloaded"
    GENERATED = "generated"
    ABSENT = "not here"


@dataclass(frozen=True)
class File:
    """One file of a corpus.

    `part` says what it holds (`train.en`, `train.de`, `train.tsv` for both sides, or what an
    archive is); `address` is a path below the mirror or a URL; `sha256` is of the file's own bytes,
    still compressed, or `unknown`; a file `by_hand` cannot be fetched unattended.
    """

    part: str
    address: str
    sha256: str
    note: str = ""
    by_hand: bool = False
    name: str = ""


@dataclass(frozen=True)
class Corpus:
    """One entry of the registry. `pairs` counts training pairs (of a test set or treebank: all its
    sentences); `bytes` is the size of the mirror's files, or of the download where there is no
    mirror, 0 when not known.

    For a public download without splits of its own: `held_out` names test sets whose English
    sentences are removed from its training pairs, `cap` is the most training pairs kept (0: all),
    and `valid` and `tests` name the sets evaluated on; without them the split rule makes both.
    A mixture is the parallel corpora named in `of`, and has no files of its own.
    """

    name: str
    title: str
    kind: CorpusKind
    target: str
    licence: str
    pairs: int
    bytes: int
    mirror: tuple[File, ...] = ()
    public: tuple[File, ...] = ()
    note: str = ""
    cap: int = 0
    held_out: tuple[str, ...] = ()
    valid: str = ""
    tests: tuple[str, ...] = ()
    of: tuple[str, ...] = ()

    @property
    def languages(self) -> str:
        alone = self.kind in ALONE
        return self.target if alone else f"en-{self.target}"


@cache
def _read(file: Path) -> dict[str, Corpus]:
    return {name: _corpus(file, name, table) for name, table in entries(file).items()}


def registry() -> dict[str, Corpus]:
    """Every known corpus by name, in the order of `data/corpora.toml`."""
    return _read(paths.DATA / "corpora.toml")


def entries(file: Path) -> dict[str, dict]:
    """The tables of a TOML file by name; UserError where it is missing or malformed."""
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{file} is missing: restore it from the repository") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML ({error}): mend that line") from None
    return {name: dict(table) for name, table in tables.items()}


def _corpus(file: Path, name: str, table: dict) -> Corpus:
    try:
        files = {
            "mirror": [File(address=row.pop("path"), **row) for row in table.pop("mirror", [])],
            "public": [File(address=row.pop("url"), **row) for row in table.pop("public", [])],
        }
        names = {key: table.pop(key, ()) for key in ("held_out", "tests", "of")}
        lists = {key: tuple(each) for key, each in (files | names).items()}
        return Corpus(name=name, kind=CorpusKind(table.pop("kind")), **table, **lists)
    except (TypeError, KeyError, ValueError) as error:
        raise UserError(f"{file}: the entry [{name}] is wrong ({error}): mend it") from None


def corpus(name: str) -> Corpus:
    """The corpus of that name; a UserError names the nearest known names otherwise."""
    known = registry()
    if name in known:
        return known[name]
    near = nearest(name, known)
    raise UserError(
        f"no corpus is called {name!r}: did you mean {', '.join(near)}? "
        "`headbook corpora list` shows all; a folder of your own is named by its path"
    )


def is_path(name: str) -> bool:
    """Whether a name that is not in the registry is meant as a path: it looks like one, or is."""
    return name.startswith(("~", ".")) or "/" in name or Path(name).exists()


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to six names that are spelt alike; the first ones where none is."""
    return difflib.get_close_matches(name, list(known), n=6, cutoff=0.4) or list(known)[:6]


def collection(name: str) -> str:
    """A corpus' name without its language, which corpora that share downloads have in common."""
    return name.rpartition("-")[0] or name


def downloaded(entry: Corpus, file: File) -> Path:
    """Where the download of one public file is kept: under `name`, or its name in the address."""
    return paths.downloads() / collection(entry.name) / (file.name or Path(file.address).name)


def place(entry: Corpus) -> Place:
    """Where a corpus is now; it counts as here only when every file of it is.

    A mixture is in the mirror where all of its corpora are, and absent where any is.
    """
    if entry.kind is CorpusKind.GENERATED:
        return Place.GENERATED
    if entry.of:
        places = {place(corpus(name)) for name in entry.of}
        return next(
            each for each in (Place.ABSENT, Place.DOWNLOADED, Place.MIRROR) if each in places
        )
    root = paths.mirror()
    if root and entry.mirror and all((root / file.address).is_file() for file in entry.mirror):
        return Place.MIRROR
    public = [downloaded(entry, file) for file in entry.public]
    return Place.DOWNLOADED if public and all(map(Path.is_file, public)) else Place.ABSENT
