"""The run store: what takes long is computed once for all that decides it, and kept."""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from headbook import paths
from headbook.machine import sha256
from headbook.runs import record
from headbook.runs.canonical import digest, plain
from headbook.types import UserError

KEY_LENGTH = 16  # hexadecimal digits of the digest that name a folder
RECORD = "run.json"
"""The file of a finished run: what decided it, and which code and machine made it, when."""


@dataclass(frozen=True)
class Stage:
    """One kind of work. Its version moves when its numbers do, and only then."""

    name: str
    version: int


@dataclass(frozen=True)
class Ingredients:
    """All that decides a run's numbers: stage, config, digests of what it reads, numeric policy."""

    stage: Stage
    config: Any
    inputs: Mapping[str, str]
    policy: Mapping[str, str]

    @property
    def key(self) -> str:
        return digest(self)[:KEY_LENGTH]


@dataclass(frozen=True)
class Store:
    """Runs under one folder: `<stage>/<key>/`, with a record beside what the stage wrote."""

    root: Path

    @classmethod
    def default(cls) -> "Store":
        return cls(paths.runs())

    def folder(self, ingredients: Ingredients) -> Path:
        return self.root / ingredients.stage.name / ingredients.key

    def has(self, ingredients: Ingredients) -> bool:
        """Whether the run is finished and kept; a folder without its record is not.

        UserError where the record is damaged.
        """
        file = self.folder(ingredients) / RECORD
        if not file.exists():
            return False
        if _ingredients(file) is None:
            raise UserError(f"{file} is damaged: restore it, or remove its folder")
        return True

    def under_way(self, ingredients: Ingredients) -> Path | None:
        """The folder of a run that was begun and not finished; None where none is near."""
        aside = _aside(self.folder(ingredients))
        return aside if aside.is_dir() else None

    def get(self, ingredients: Ingredients, make: Callable[[Path], None]) -> Path:
        """The run's folder; `make` fills it first where there is none.

        `make` works in a folder beside it that survives a kill, so a stage can resume, and the
        folder is renamed when done. Two processes that ask for one run compute it once. UserError
        where the store cannot be written.
        """
        final = self.folder(ingredients)
        if not self.has(ingredients):
            self._require_writable(final.parent)
            with _locked(final.with_suffix(".lock")):
                if not self.has(ingredients):
                    _make(ingredients, make, final)
        return final

    def finished(self, stage: Stage) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Folder and ingredients of every finished run of a stage, the newest first.

        A run with a damaged record is left out, with a line that names it.
        """
        files = (self.root / stage.name).glob(f"*/{RECORD}")
        for file in sorted(files, key=lambda each: each.stat().st_mtime, reverse=True):
            made = _ingredients(file)
            if made is None:
                _say_once(f"{file} is damaged: its run is left out until it is restored")
            elif made["stage"] == plain(stage):
                yield file.parent, made

    def _require_writable(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            reason = None if os.access(folder, os.W_OK) else "no permission to write"
        except OSError as error:
            reason = error.strerror
        if reason:
            raise UserError(
                f"the run store {self.root} cannot be written ({reason}): "
                "name another folder in HEADBOOK_RUNS"
            )


def _ingredients(file: Path) -> dict[str, Any] | None:
    """The ingredients in a record; None where it is damaged."""
    with suppress(ValueError, KeyError, TypeError):
        made = json.loads(file.read_bytes())["ingredients"]
        return made if {"stage", "config"} <= set(made) else None
    return None


@cache
def _say_once(line: str) -> None:
    print(f"headbook: {line}", file=sys.stderr, flush=True)


def checked(folder: Path, name: str) -> Path:
    """A file in the folder of a run; UserError where it is missing or not as the record says.

    A file without a recorded digest is taken as it is.
    """
    file, recorded = folder / name, {}
    with suppress(OSError, ValueError, AttributeError):
        recorded = json.loads((folder / RECORD).read_bytes()).get("files", {})
    if not file.is_file() or (name in recorded and sha256(file) != recorded[name]):
        raise UserError(
            f"{file} is missing or not the file that {RECORD} records (SHA-256): restore it, or "
            f"delete {folder} to make it again"
        )
    return file


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder, for its record."""
    return {file.name: sha256(file) for file in sorted(folder.iterdir())}


def _make(ingredients: Ingredients, make: Callable[[Path], None], final: Path) -> None:
    aside = _aside(final)
    aside.mkdir(exist_ok=True)
    # The commit that is running, not the one checked out when a long run ends.
    commit, started, began = record.commit(), record.now(), time.monotonic()
    make(aside)
    kept = {
        "ingredients": plain(ingredients),
        "commit": commit,
        "versions": record.versions(),
        "hardware": record.hardware(),
        "started": started,
        "seconds": round(time.monotonic() - began, 1),
        "files": digests(aside),
    }
    (aside / RECORD).write_text(json.dumps(kept, indent=1))
    synced(aside)
    _clear(final)
    aside.rename(final)


def synced(folder: Path) -> None:
    """Returns when all files of the folder are on the disk, as a rename of it may be at once."""
    for path in (*folder.iterdir(), folder):
        opened = os.open(path, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)


def _clear(final: Path) -> None:
    """A folder that lost its record keeps what it holds, under another name."""
    if not final.exists():
        return
    names = (final.with_suffix(f".unrecorded{number}") for number in itertools.count(1))
    kept = next(name for name in names if not name.exists())
    final.rename(kept)
    _say_once(f"{final} had no {RECORD}: what it holds is in {kept.name} now")


def _aside(final: Path) -> Path:
    return final.with_suffix(".partial")


def _locked(path: Path) -> AbstractContextManager:
    """The lock, held; said aloud where another process has it."""
    lock = FileLock(path)
    with suppress(Timeout):
        return lock.acquire(timeout=0)
    named = f"{path.parent.name}/{path.stem}"
    print(f"waiting for another process to finish {named}", file=sys.stderr, flush=True)
    return lock.acquire()
