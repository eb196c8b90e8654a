"""The run store: keys move with what decides a run, and a run is whole or not there."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import pytest

from headbook.runs.store import Ingredients, Stage, Store
from headbook.types import UserError


class Norm(StrEnum):
    PRE = "pre"
    POST = "post"


@dataclass(frozen=True)
class Inner:
    norm: Norm | str = Norm.PRE
    rates: tuple[float, ...] = (0.9, 0.98)


@dataclass(frozen=True)
class Config:
    inner: Inner = Inner()
    updates: int = 3
    limit: int | None = None


ASKED = Ingredients(
    Stage("model", 1), Config(), {"corpus": "aa", "parse": "bb"}, {"precision": "fp32"}
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def write(folder: Path) -> None:
    (folder / "result.txt").write_text("42")


OTHERS = {
    "stage.version": replace(ASKED, stage=Stage("model", 2)),
    "stage.name": replace(ASKED, stage=Stage("other", 1)),
    "config.updates": replace(ASKED, config=Config(updates=4)),
    "config.limit": replace(ASKED, config=Config(limit=0)),
    "config.inner.norm": replace(ASKED, config=Config(Inner(norm=Norm.POST))),
    "config.inner.rates": replace(ASKED, config=Config(Inner(rates=(0.9, 0.99)))),
    "inputs.corpus": replace(ASKED, inputs={"corpus": "ab", "parse": "bb"}),
    "inputs.parse": replace(ASKED, inputs={"corpus": "aa"}),
    "policy.precision": replace(ASKED, policy={"precision": "bf16"}),
    "policy.device": replace(ASKED, policy={"precision": "fp32", "device": "cuda"}),
}


def test_every_ingredient_moves_the_key():
    keys = {ASKED.key, *(other.key for other in OTHERS.values())}
    assert len(keys) == 1 + len(OTHERS)


@pytest.mark.parametrize(
    "same",
    [
        replace(ASKED, inputs={"parse": "bb", "corpus": "aa"}),
        replace(ASKED, config=Config(Inner(norm="pre"))),
        replace(ASKED, config={"updates": 3, "limit": None,
                               "inner": {"rates": [0.9, 0.98], "norm": "pre"}}),
    ],
    ids=["order", "text", "mapping"],
)  # fmt: skip
def test_what_does_not_matter_leaves_the_key(same: Ingredients):
    assert same.key == ASKED.key


def test_a_run_is_made_once_and_recorded(store: Store):
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        write(folder)

    assert not store.has(ASKED)
    folder = store.get(ASKED, make)
    assert store.get(ASKED, make) == folder == store.folder(ASKED)
    assert len(made) == 1 and store.has(ASKED)
    assert (folder / "result.txt").read_text() == "42"
    record = json.loads((folder / "run.json").read_text())
    assert record["ingredients"]["config"]["inner"] == {"norm": "pre", "rates": [0.9, 0.98]}
    assert {"commit", "versions", "hardware", "started", "seconds"} <= set(record)
    assert not folder.with_suffix(".partial").exists()


def test_a_crash_leaves_no_hit_and_what_was_made_so_far(store: Store):
    def crash(folder: Path) -> None:
        (folder / "half.txt").write_text("so far")
        raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        store.get(ASKED, crash)
    assert not store.has(ASKED) and not store.folder(ASKED).exists()

    def resume(folder: Path) -> None:
        assert (folder / "half.txt").read_text() == "so far"
        write(folder)

    folder = store.get(ASKED, resume)
    assert store.has(ASKED) and (folder / "half.txt").exists()


SCRIPT = Path(__file__).with_name("asking.py")


@pytest.mark.slow
def test_two_processes_compute_one_run_once(tmp_path: Path):
    counter, finish, notices = (tmp_path / name for name in ("counter", "finish", "notices"))
    command = [sys.executable, str(SCRIPT), str(tmp_path / "store"), str(counter), str(finish)]
    with notices.open("w") as said:
        asking = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )
            for _ in range(2)
        ]
    # Both are up before either may ask, so that they ask together.
    assert [process.stdout.readline() for process in asking] == ["asking\n"] * 2
    for process in asking:
        process.stdin.write("now\n")
        process.stdin.flush()
    # One is not done before the other has met its lock, however slow the machine is.
    deadline = time.monotonic() + 120
    while "waiting for" not in notices.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    finish.touch()
    answers = [process.communicate(timeout=120)[0] for process in asking]
    assert [printed.splitlines()[-1] for printed in answers] == ["42", "42"]
    assert counter.read_text() == "computed\n"
    assert notices.read_text().count("waiting for") == 1


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_store_that_cannot_be_written_is_the_users_error(tmp_path: Path, below: str):
    (tmp_path / "file").write_text("")
    root = tmp_path / "file" / below
    with pytest.raises(UserError, match=r"cannot be written \(.*name another .* HEADBOOK_RUNS"):
        Store(root).get(ASKED, lambda folder: None)
