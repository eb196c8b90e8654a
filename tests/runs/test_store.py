"""The run store: keys move with what decides a run, and a run is whole or not there."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import pytest
from filelock import FileLock

from headbook.runs.canonical import plain
from headbook.runs.store import Difference, Ingredients, Stage, Store
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


def test_the_key_is_what_it_was():
    """Of a format that must stay: a moved key throws away trained models."""
    assert ASKED.key == "ffeb50831a7fdd03"


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


def test_what_was_got_is_told_once_and_in_order(store: Store):
    """Found or made; what lies there unread, and what another object got, is not told."""
    other = OTHERS["config.updates"]
    Store(store.root).get(other, write)
    assert store.records() == [] and store == Store(store.root)
    for asked in (ASKED, other, ASKED):
        store.get(asked, write)
    told = [made["ingredients"] for made in store.records()]
    assert told == [plain(ASKED), plain(other)]


def test_what_a_run_took_while_it_was_made_is_its_own(store: Store):
    other = OTHERS["config.updates"]

    def make(folder: Path) -> None:
        store.get(other, write)
        write(folder)

    store.get(ASKED, make)
    assert [made["ingredients"] for made in store.records()] == [plain(ASKED)]


def test_another_run_has_a_folder_of_its_own(store: Store):
    store.get(ASKED, write)
    other = OTHERS["config.updates"]
    assert not store.has(other)
    assert store.get(other, write) != store.folder(ASKED)


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


def test_a_folder_without_its_record_is_no_hit(store: Store):
    store.folder(ASKED).with_suffix(".partial").mkdir(parents=True)
    assert not store.has(ASKED)
    assert store.has(replace(ASKED)) is False
    store.get(ASKED, write)
    assert store.has(ASKED)


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


def test_a_store_without_permission_is_the_users_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(UserError, match="no permission to write"):
        store.get(ASKED, lambda folder: None)


def test_a_lock_that_is_free_is_taken_once(store: Store, monkeypatch: pytest.MonkeyPatch):
    """Tried, let go and taken again, another process slips in and is waited for in silence."""
    taken = []
    acquire = FileLock.acquire
    monkeypatch.setattr(
        FileLock, "acquire", lambda lock, **how: (taken.append(how), acquire(lock, **how))[1]
    )
    store.get(ASKED, write)
    assert taken == [{"timeout": 0}]


def test_nothing_to_explain(store: Store):
    assert store.explain(ASKED) is None
    store.get(ASKED, write)
    assert store.explain(ASKED) == []


@pytest.mark.parametrize("where", [name for name in OTHERS if name != "stage.name"])
def test_explain_names_exactly_what_differs(store: Store, where: str):
    store.get(ASKED, write)
    differences = store.explain(OTHERS[where])
    assert [difference.where for difference in differences] == [where]


def test_explain_reads_like_a_sentence(store: Store):
    store.get(ASKED, write)
    (difference,) = store.explain(OTHERS["config.updates"])
    assert difference == Difference("config.updates", 3, 4)
    assert str(difference) == "config.updates: kept 3, asked 4"


def test_explain_compares_with_the_nearest(store: Store):
    far = replace(ASKED, config=Config(Inner(norm=Norm.POST), updates=9), policy={})
    store.get(far, write)
    store.get(OTHERS["config.updates"], write)
    assert [each.where for each in store.explain(ASKED)] == ["config.updates"]


def test_explain_sees_a_field_that_is_new_and_none(store: Store):
    """Its key moved, so to say that nothing differs would be wrong."""
    store.get(replace(ASKED, config={"updates": 3}), write)
    (difference,) = store.explain(replace(ASKED, config={"updates": 3, "limit": None}))
    assert str(difference) == "config.limit: kept '(absent)', asked None"
