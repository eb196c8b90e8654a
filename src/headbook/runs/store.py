"""The run store: a stage's results are computed once per set of ingredients and cached."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from headbook import paths
from headbook.runs import record
from headbook.runs.canonical import digest, plain
from headbook.types import UserError

KEY_LENGTH = 16  # hexadecimal digits of the digest that name a folder
ELSEWHERE = "elsewhere.json"
"""Written by a stage that takes over what another machine did: fields of that machine's record."""
ABSENT = "(absent)"  # what `explain` shows for a field that one of the two runs does not have


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
class Difference:
    """One ingredient in which the nearest kept run differs from the one asked for."""

    where: str
    kept: Any
    asked: Any

    def __str__(self) -> str:
        return f"{self.where}: kept {self.kept!r}, asked {self.asked!r}"


@dataclass(frozen=True)
class Store:
    """Runs under one folder: `<stage>/<key>/`, with `run.json` beside what the stage wrote."""

    root: Path
    handed: dict[Path, None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Folders of the runs that were got from this object, each once and in order; without those
    that a run took while it was made."""

    @classmethod
    def default(cls) -> "Store":
        return cls(paths.runs())

    def folder(self, ingredients: Ingredients) -> Path:
        return self.root / ingredients.stage.name / ingredients.key

    def has(self, ingredients: Ingredients) -> bool:
        """Whether the run is finished and kept; a folder without its record is not."""
        return (self.folder(ingredients) / "run.json").exists()

    def under_way(self, ingredients: Ingredients) -> Path | None:
        """The folder of a run that was begun and not finished; None where none is near."""
        aside = _aside(self.folder(ingredients))
        return aside if aside.is_dir() else None

    def get(self, ingredients: Ingredients, make: Callable[[Path], None]) -> Path:
        """The run's folder; `make` fills it first where there is none.

        `make` works in a folder beside it that survives a kill, so a stage can resume, and the
        folder is renamed when done. Two processes that ask for one run compute it once.
        """
        final = self.folder(ingredients)
        if not self.has(ingredients):
            self._require_writable(final.parent)
            with _locked(final.with_suffix(".lock")):
                if not self.has(ingredients):
                    self._make(ingredients, make, final)
        self.handed[final] = None
        return final

    def hand_over(self, alike: Iterable[Ingredients]) -> list[Path]:
        """The folders of finished runs that are parts of one; one record per commit stands for all.

        OSError where one is not finished.
        """
        folders = [self.folder(each) for each in alike]
        made = {path: json.loads((path / "run.json").read_text())["commit"] for path in folders}
        told = {made[path] for path in self.handed if path in made}
        for path, commit in made.items():
            if commit not in told:
                self.handed[path] = None
                told.add(commit)
        return folders

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

    def records(self) -> list[dict[str, Any]]:
        """The records of all runs that this object has read or computed."""
        return [json.loads((folder / "run.json").read_text()) for folder in self.handed]

    def finished(self, stage: Stage) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Folder and ingredients of every finished run of a stage, the newest first."""
        files = (self.root / stage.name).glob("*/run.json")
        for file in sorted(files, key=lambda each: each.stat().st_mtime, reverse=True):
            made = json.loads(file.read_text())["ingredients"]
            if made["stage"] == plain(stage):
                yield file.parent, made

    def _make(self, ingredients: Ingredients, make: Callable[[Path], None], final: Path) -> None:
        aside = _aside(final)
        aside.mkdir(exist_ok=True)
        # The commit that is running, not the one checked out when a long run ends.
        commit, started, began = record.commit(), record.now(), time.monotonic()
        before = dict(self.handed)
        make(aside)
        self.handed.clear()
        self.handed.update(before)
        kept = {
            "ingredients": plain(ingredients),
            "commit": commit,
            "versions": record.versions(),
            "hardware": record.hardware(),
            "started": started,
            "seconds": round(time.monotonic() - began, 1),
        }
        if (aside / ELSEWHERE).exists():
            kept |= json.loads((aside / ELSEWHERE).read_text())
        (aside / "run.json").write_text(json.dumps(kept, indent=1))
        aside.rename(final)

    def explain(self, ingredients: Ingredients) -> list[Difference] | None:
        """Differences from the nearest stored run: [] for the same run, None where none is near."""
        if self.has(ingredients):
            return []
        asked = _flat(plain(ingredients))
        stage = self.root / ingredients.stage.name
        records = [json.loads(path.read_text()) for path in sorted(stage.glob("*/run.json"))]
        compared = [_differences(_flat(kept["ingredients"]), asked) for kept in records]
        return min(compared, key=len, default=None)


def _aside(final: Path) -> Path:
    return final.with_suffix(".partial")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The lock, held; said aloud where another process has it.

    What was tried for is kept: let go and taken again, another could slip in and be waited for
    without a word.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        named = f"{path.parent.name}/{path.stem}"
        print(f"waiting for another process to finish {named}", file=sys.stderr, flush=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _flat(value: Any, where: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {where: value}
    flat: dict[str, Any] = {}
    for name, item in value.items():
        flat |= _flat(item, f"{where}.{name}" if where else name)
    return flat


def _differences(kept: dict[str, Any], asked: dict[str, Any]) -> list[Difference]:
    return [
        Difference(where, kept.get(where, ABSENT), asked.get(where, ABSENT))
        for where in sorted(kept.keys() | asked.keys())
        # A field that is absent and one that holds None give two keys.
        if kept.get(where, ABSENT) != asked.get(where, ABSENT)
    ]
