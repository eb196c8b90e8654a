"""Files of a corpus: the mirror first, then what was fetched, then the public address.

Every file's digest is checked before it is read, once a process for a file that does not change.
"""

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import pooch
import requests

from headbook import paths
from headbook.corpora.registry import (
    UNKNOWN,
    Access,
    Corpus,
    CorpusKind,
    File,
    Place,
    corpus,
    downloaded,
    mirrored,
    place,
    registry,
)
from headbook.types import UserError


class State(StrEnum):
    """Result of checking a file."""

    OK = "ok"
    MISSING = "missing"
    WRONG = "wrong digest"
    FIRST = "no digest known yet"


@dataclass(frozen=True)
class Checked:
    """One line of `headbook corpora check`."""

    corpus: str
    file: Path
    place: Place
    state: State


@dataclass(frozen=True)
class Located:
    """The files of a corpus by part, digests checked, and where they came from."""

    place: Place
    files: dict[str, Path]


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, read once a process while size and time stay the same."""
    status = path.stat()
    return _sha256(path, status.st_size, status.st_mtime_ns)


@cache
def _sha256(path: Path, _size: int, _changed: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def locate(name: str) -> Located:
    """The files of a corpus, fetched when neither the mirror nor an earlier download has them."""
    entry = corpus(name)
    if entry.kind is CorpusKind.MIXTURE and place(entry) is Place.MIRROR:
        parts = {part: locate(part) for part in entry.of}
        return Located(Place.MIRROR, _together({part: at.files for part, at in parts.items()}))
    return in_mirror(entry) or Located(Place.DOWNLOADED, fetch(name))


def _together(files: dict[str, dict[str, Path]]) -> dict[str, Path]:
    """The files of a mixture's corpora, each part's name behind its corpus'."""
    return {f"{part}/{piece}": path for part, each in files.items() for piece, path in each.items()}


def in_mirror(entry: Corpus) -> Located | None:
    """The mirror's files; None when it has none, UserError when some are missing or wrong."""
    root = paths.mirror()
    if root is None or not entry.mirror:
        return None
    if not root.is_dir():
        raise UserError(f"HEADBOOK_DATA names {root}, which is not a folder: mend it or unset it")
    found = {file: root / file.address for file in entry.mirror}
    missing = [path for path in found.values() if not path.is_file()]
    if len(missing) == len(found):
        return None
    if missing:
        raise UserError(
            f"{missing[0]} is missing while other files of {entry.name} are in the "
            "mirror: copy it there again"
        )
    for file, path in found.items():
        _require(path, file.sha256, "copy it into the mirror again")
    return Located(Place.MIRROR, {file.part: path for file, path in found.items()})


def _require(path: Path, expected: str, mend: str) -> None:
    actual = sha256(path)
    if actual != expected:
        raise UserError(f"{path} has sha256 {actual}, not {expected} as recorded: {mend}")


def fetch(name: str) -> dict[str, Path]:
    """Downloads what is not there yet, checks every digest, and gives the files by part."""
    entry = corpus(name)
    if entry.kind is CorpusKind.GENERATED:
        raise UserError(f"{name} is generated when it is loaded: there is nothing to fetch")
    if entry.kind is CorpusKind.MIXTURE:
        return _together({part: fetch(part) for part in entry.of})
    if not entry.public:
        wanted = entry.mirror[0].address
        raise UserError(
            f"{name} has no public download in this form: set HEADBOOK_DATA to a "
            f"folder that holds {wanted} (data/README.md says how it was assembled)"
        )
    return {file.part: _fetched(entry, file) for file in entry.public}


def _fetched(entry: Corpus, file: File) -> Path:
    path = downloaded(entry, file)
    if not path.is_file():
        if file.access is Access.BY_HAND:
            raise UserError(
                f"{path} is missing and cannot be fetched unattended ({file.note}): "
                f"get it from {file.address} and put it there"
            )
        _download(file, path)
    _hold_to(file, path)
    return path


def _hold_to(file: File, path: Path) -> None:
    """Checks a download; a wrong one is set aside, a right one's digest is written down."""
    expected, actual = _expected(file, path), sha256(path)
    if actual != expected:
        source = "data/corpora.toml" if file.sha256 != UNKNOWN else _lock(path)
        aside = path.with_name(path.name + ".wrong")
        path.replace(aside)
        raise UserError(
            f"{path}, from {file.address}, has sha256 {actual}, not {expected} as in {source}: it "
            f"was set aside as {aside.name}; fetch again, or correct {source} if the publisher "
            "changed the file"
        )
    _record(path)


def _download(file: File, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        pooch.retrieve(file.address, None, fname=path.name, path=path.parent, progressbar=True)
    except (requests.RequestException, OSError) as error:
        raise UserError(
            f"{file.address} could not be fetched ({type(error).__name__}): check the "
            "network, or set HEADBOOK_DATA to a folder that has the corpus"
        ) from None


def _lock(path: Path) -> Path:
    return path.parent / "digests.json"


def _recorded(path: Path) -> dict[str, str]:
    lock = _lock(path)
    return json.loads(lock.read_text(encoding="utf-8")) if lock.is_file() else {}


def _expected(file: File, path: Path) -> str:
    """The registry's digest, else that of the first download, else (first time) the file's own."""
    if file.sha256 != UNKNOWN:
        return file.sha256
    return _recorded(path).get(path.name) or sha256(path)


def _record(path: Path) -> None:
    recorded = _recorded(path)
    if recorded.get(path.name) != sha256(path):
        text = json.dumps({**recorded, path.name: sha256(path)}, indent=1, sort_keys=True)
        _lock(path).write_text(text + "\n", encoding="utf-8")


def check() -> list[Checked]:
    """The state of every file that should be here: the mirror's if there is one, and downloads."""
    rows = []
    for entry in registry().values():
        if paths.mirror():
            rows += [_checked(entry, file, Place.MIRROR) for file in entry.mirror]
        fetched = [file for file in entry.public if downloaded(entry, file).is_file()]
        if fetched:
            rows += [_checked(entry, file, Place.DOWNLOADED) for file in entry.public]
    return rows


def _checked(entry: Corpus, file: File, where: Place) -> Checked:
    path = mirrored(file) if where is Place.MIRROR else downloaded(entry, file)
    assert path is not None
    return Checked(entry.name, path, where, _state(file, path))


def _state(file: File, path: Path) -> State:
    if not path.is_file():
        return State.MISSING
    known = file.sha256 if file.sha256 != UNKNOWN else _recorded(path).get(path.name)
    if known is None:
        return State.FIRST
    return State.OK if sha256(path) == known else State.WRONG
