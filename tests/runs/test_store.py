"""The run store: keys move with what decides a run, and a run is whole or not there."""

import json
import multiprocessing
import os
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from refusing import refused, refuses

from headbook import paths
from headbook.models.decoding import Search
from headbook.runs.store import Ingredients, Stage, Store

INPUTS, POLICY = {"corpus": "aa", "parse": "bb"}, {"precision": "fp32"}
ASKED = Ingredients(Stage("model", 1), Search(), INPUTS, POLICY)
SAME = (
    replace(ASKED, inputs={"parse": "bb", "corpus": "aa"}),
    replace(ASKED, config=dict(reversed(asdict(Search()).items()))),
)
OTHERS = (
    replace(ASKED, stage=Stage("model", 2)),
    replace(ASKED, stage=Stage("other", 1)),
    replace(ASKED, config=Search(beam=3)),
    replace(ASKED, inputs={"corpus": "ab", "parse": "bb"}),
    replace(ASKED, inputs={"corpus": "aa"}),
    replace(ASKED, policy={"precision": "fp32", "device": "cuda"}),
)


def test_every_ingredient_moves_the_key_and_nothing_else_does():
    assert len({ASKED.key, *(other.key for other in OTHERS)}) == 1 + len(OTHERS)
    assert {same.key for same in SAME} == {ASKED.key}


def test_a_run_is_made_once_and_a_crash_leaves_what_was_made_so_far(tmp_path: Path):
    store, made = Store(tmp_path), []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / f"{len(made)}.txt").write_text("42")
        if len(made) == 1:
            raise RuntimeError("planted")

    with pytest.raises(RuntimeError, match="planted"):
        store.get(ASKED, make)
    assert not store.has(ASKED) and store.under_way(ASKED) == made[0]
    folder = store.get(ASKED, make)
    assert store.get(ASKED, make) == folder == store.folder(ASKED)
    assert len(made) == 2 and store.has(ASKED) and store.under_way(ASKED) is None
    assert [(folder / f"{n}.txt").read_text() for n in (1, 2)] == ["42", "42"]
    record = json.loads((folder / "run.json").read_text())
    assert {"commit", "versions", "hardware", "started", "seconds"} <= set(record)
    assert [*store.finished(ASKED.stage)] == [(folder, record["ingredients"])]


def test_a_folder_that_lost_its_record_is_kept_and_the_run_made_again(tmp_path: Path, capsys):
    store = Store(tmp_path)
    for text in ("first", "second", "third"):
        folder = store.get(ASKED, lambda at, text=text: (at / "made.txt").write_text(text))
        assert (folder / "made.txt").read_text() == text
        (folder / "run.json").unlink()
        assert not store.has(ASKED)
    kept = {(each / "made.txt").read_text() for each in folder.parent.iterdir() if each.is_dir()}
    assert kept == {"first", "second", "third"} and "run.json" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", ["", "{", "[]", "{}", '{"ingredients": 3}', "\0\0"])
def test_a_damaged_record_is_named_and_left_out(tmp_path: Path, capsys, damaged: str):
    store, other = Store(tmp_path), OTHERS[2]
    whole, folder = (store.get(each, lambda folder: None) for each in (ASKED, other))
    (folder / "run.json").write_text(damaged)
    assert [path for path, _ in store.finished(ASKED.stage)] == [whole]
    assert capsys.readouterr().err.count(str(folder / "run.json")) == 1
    for ask in (store.has, lambda asked: store.get(asked, lambda folder: None)):
        refuses(partial(ask, other), "is damaged: restore it")


def test_a_store_that_cannot_be_written_is_the_users_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with refused(r"cannot be written \(.*name another .* HEADBOOK_RUNS"):
        Store(tmp_path / "file").get(ASKED, lambda folder: None)


def test_two_processes_compute_one_run_once(tmp_path: Path):
    """They ask together, and one is not done before the other has met its lock."""
    counter, notices = tmp_path / "counter", tmp_path / "notices"
    together = multiprocessing.get_context("fork").Barrier(2)

    def make(folder: Path) -> None:
        with counter.open("a") as lines:
            lines.write("computed\n")
        deadline = time.monotonic() + 120
        while "waiting for" not in notices.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        (folder / "result.txt").write_text("42")

    def ask() -> None:
        os.dup2(os.open(notices, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        sys.stderr = os.fdopen(2, "w")
        together.wait()
        assert (Store(tmp_path / "store").get(ASKED, make) / "result.txt").read_text() == "42"

    both = [multiprocessing.get_context("fork").Process(target=ask) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert [each.exitcode for each in both] == [0, 0]
    assert counter.read_text() == "computed\n" and notices.read_text().count("waiting for") == 1


def test_a_relative_folder_is_one_place_for_processes_of_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADBOOK_RUNS", "my runs")
    with paths.with_variables(paths.variables()):
        monkeypatch.chdir("/")
        assert paths.runs() == tmp_path / "my runs"
