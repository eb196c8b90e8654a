"""Files of a corpus: the mirror first, then what was fetched, then the public address.

Every file's digest is checked before it is read, once a process for a file that does not change.
"""

import json
import sys
from pathlib import Path

import pooch
import requests

from headbook import paths
from headbook.machine import sha256
from headbook.text.registry import (
    UNKNOWN,
    Corpus,
    CorpusKind,
    File,
    corpus,
    downloaded,
)
from headbook.types import UserError


def locate(name: str) -> dict[str, Path]:
    """The files of a corpus by part, digests checked, fetched where they are not here yet.

    Those of a mixture are named by corpus and part.
    """
    entry = corpus(name)
    if entry.kind is CorpusKind.MIXTURE:
        parts = {part: locate(part) for part in entry.of}
        return {f"{part}/{each}": files[each] for part, files in parts.items() for each in files}
    if entry.kind is CorpusKind.GENERATED:
        raise UserError(f"{name} is generated when it is loaded: there is nothing to fetch")
    return _in_mirror(entry) or _fetched(entry)


def _in_mirror(entry: Corpus) -> dict[str, Path] | None:
    """The mirror's files; None when it has none, UserError when some are missing or wrong."""
    root = paths.mirror()
    if root is None or not entry.mirror:
        return None
    if not root.is_dir():
        raise UserError(f"HEADBOOK_DATA names {root}, which is not a folder: mend it or unset it")
    found = {file: root / file.address for file in entry.mirror}
    if not any(path.is_file() for path in found.values()):
        return None
    for file, path in found.items():
        if not path.is_file() or sha256(path) != file.sha256:
            wrong = (
                f"has sha256 {sha256(path)}, not {file.sha256}" if path.is_file() else "is missing"
            )
            raise UserError(f"{path} {wrong}: copy {entry.name} into the mirror again")
    return {file.part: path for file, path in found.items()}


def _fetched(entry: Corpus) -> dict[str, Path]:
    """The public files by part, downloaded where they are not here yet, and all digests checked."""
    if not entry.public:
        raise UserError(
            f"{entry.name} has no public download in this form: set HEADBOOK_DATA to a folder that "
            f"holds {entry.mirror[0].address} (data/README.md says how it was assembled)"
        )
    return {file.part: _fetch(file, downloaded(entry, file)) for file in entry.public}


def _fetch(file: File, path: Path) -> Path:
    known = _known(file, path)
    if not path.is_file():
        if file.by_hand:
            raise UserError(
                f"{path} is missing and cannot be fetched unattended ({file.note}): "
                f"get it from {file.address} and put it there"
            )
        try:
            pooch.retrieve(file.address, known, path.name, path.parent, progressbar=True)
        except ValueError:  # pooch has removed what it fetched
            raise UserError(
                f"{file.address} now has another digest than {known}, which was recorded for "
                f"{path}: correct data/corpora.toml or {_lock(path)} if the publisher changed it"
            ) from None
        except requests.RequestException as error:
            raise UserError(
                f"{file.address} could not be fetched ({type(error).__name__}): check the "
                "network, or set HEADBOOK_DATA to a folder that has the corpus"
            ) from None
        except OSError as error:
            raise UserError(
                f"{path} cannot be written ({error.strerror}): name another folder in "
                "HEADBOOK_DOWNLOADS, or make room"
            ) from None
    if known is None:
        recorded = {**_recorded(path), path.name: sha256(path)}
        _lock(path).write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", "utf-8")
        print(f"headbook: no digest of {file.address} was known; its own is in {_lock(path)} now",
              file=sys.stderr)  # fmt: skip
    elif sha256(path) != known:
        raise UserError(f"{path} has sha256 {sha256(path)}, not {known} as recorded: delete it")
    return path


def _lock(path: Path) -> Path:
    return path.parent / "digests.json"


def _recorded(path: Path) -> dict[str, str]:
    lock = _lock(path)
    return json.loads(lock.read_text(encoding="utf-8")) if lock.is_file() else {}


def _known(file: File, path: Path) -> str | None:
    """The registry's digest, else that of the first download, else None."""
    return _recorded(path).get(path.name) if file.sha256 == UNKNOWN else file.sha256
