"""Training by name: killed anywhere it ends the same, cut in time, and what a run holds.

The models are those of tests/small.py, under names of a test's own.
"""

import itertools
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from filelock import FileLock
from refusing import refuses
from small import masked_run, results, translation_run, write_corpus

import headbook as hb
from headbook import paths
from headbook.corpora.readers import load
from headbook.models import checkpoint
from headbook.publishing.weights import publish_weights
from headbook.runs.store import Store, digests
from headbook.text.subwords import Subwords
from headbook.training import models
from headbook.training import train as trainings
from headbook.training.loop import Clock, Trainer
from headbook.training.models import Run, run
from headbook.training.scoring import bleu
from headbook.training.train import folder_of, snapshot, train_missing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture
def named(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Run]:
    """Two names, one of each task."""
    found = {"translates": translation_run(corpus), "masked": masked_run(corpus)}
    monkeypatch.setattr(trainings, "run", found.__getitem__)
    return found


def kill(*given: object, **named: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(strike: Callable[[], None], work: Callable[[], object]) -> bool:
    """Whether the work, done by a copy of this process with the kill put in its way, is killed."""
    if not (child := os.fork()):
        try:
            strike()
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def while_learning_subwords() -> None:
    save = Subwords.save
    Subwords.save = lambda self, path: kill() if path.stem == "target" else save(self, path)


def with_a_checkpoint_half_written() -> None:
    save = checkpoint.save_file

    def half(tensors: dict, path: Path, metadata: dict) -> None:
        save(tensors, path, metadata=metadata)
        if path.name == "state.aside" and json.loads(metadata["note"])["update"] == 2:
            os.truncate(path, path.stat().st_size // 2)
            kill()

    checkpoint.save_file = half


def while_training() -> None:
    step = Trainer._update
    Trainer._update = lambda self, batch: kill() if self.progress.update == 3 else step(self, batch)


def test_killed_in_every_phase_it_ends_the_same(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "Trainer", partial(Trainer, save_every=0.0))
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"

    def train(store: Path) -> Path:
        return trainings.trained(translation_run(corpus), Store(store))

    train(unbroken)
    for strike in (
        while_learning_subwords, with_a_checkpoint_half_written, while_training,
        lambda: setattr(models, "bleu", kill), lambda: setattr(Path, "rename", kill),
    ):  # fmt: skip
        assert killed(strike, lambda: train(broken))
    (folder,) = (path for path in (broken / "model").iterdir() if path.is_dir())
    assert folder.suffix == ".partial"
    train(broken)
    assert results(broken) == results(unbroken)
    assert not list((broken / "model").glob("*.partial"))


def stop_after(monkeypatch: pytest.MonkeyPatch, update: int) -> None:
    """Time runs out after so many updates of this process."""
    passed = iter(range(1, update + 1))
    monkeypatch.setattr(Clock, "due", lambda self: (next(passed, update) == update,) * 2)


def test_cut_and_continued_it_ends_bit_for_bit_as_uncut(
    tmp_path: Path, named: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut in both trainings, once at the end of the updates; then all is kept."""
    cut, uncut, said = Store(tmp_path / "cut"), Store(tmp_path / "uncut"), []
    assert not train_missing(named, cut, said.append, deadline=0.0)
    assert said == ["stopped before translates; the same command continues"]
    for count, name, update in ((2, "translates", 2), (4, "translates", 6), (3, "masked", 3)):
        with monkeypatch.context() as patch:
            stop_after(patch, count)
            assert not train_missing(named, cut, said.append)
        assert said[-1] == f"{name} stopped at update {update} of 6; the same command continues"
    assert train_missing(named, cut, str)
    assert train_missing(named, cut, said.append, deadline=0.0) and said[-1] == "masked: kept"
    assert train_missing(named, uncut, str)
    for stage in ("model", "encoder"):
        assert results(cut.root, stage) == results(uncut.root, stage)


def test_a_run_holds_what_is_read_of_it(
    tmp_path: Path, corpus: Path, named: dict[str, Run]
) -> None:
    store = Store(tmp_path)
    train_missing(named, store, str)
    folder, masked = (folder_of(each, store) for each in named.values())
    texts = (folder / "test.txt").read_text().splitlines(), load(str(corpus)).tests["test"].target
    found = pd.read_csv(folder / "bleu.csv")[["casing", "score"]].values.tolist()
    assert found == [["cased", bleu(*texts).score], ["lower", bleu(*texts, True).score]]
    assert pd.read_csv(folder / "curve.csv")["update"].tolist() == [2, 4, 6]
    assert json.loads((masked / "scores.json").read_text())["test_nats"] > 1
    assert not list(folder.glob("state*"))
    refuses(lambda: snapshot(folder, "5"), "update 5; kept: 2, 3, 4, 6")
    assert folder_of(replace(named["translates"], vocabulary=61), store) is None


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_generated: None) -> Path:
    """A folder for data/, without weights."""
    data = tmp_path / "data"
    data.mkdir()
    for file in ("models.toml", "corpora.toml"):
        (data / file).write_bytes((paths.DATA / file).read_bytes())
    monkeypatch.setattr(paths, "DATA", data)
    return data


@pytest.mark.usefixtures("data")
def test_what_is_published_on_the_way_is_loaded_and_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A snapshot, and the checkpoint of a training under way; then another machine ends it."""
    name, here = "controlled-sov-16", Store(tmp_path / "here")
    refuses(lambda: publish_weights(name, here), f"`headbook train {name}`")
    with monkeypatch.context() as patch:
        stop_after(patch, 13)
        assert not train_missing([name], here, str)
    early, late = (publish_weights(each, here) for each in (f"{name}@8", name))
    records = [json.loads((each / "run.json").read_text()) for each in (early, late)]
    assert [(each["updates"], each["planned"]) for each in records] == [(8, 20), (13, 20)]
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "there"))
    loaded = [hb.load(each) for each in (name, f"{name}@8", f"{name}@0")]
    assert len({each.network.logits.weight.sum().item() for each in loaded}) == 3
    there = Store(tmp_path / "there")
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert not train_missing([name], there, str)
    assert "after update 13" in capsys.readouterr().out
    assert train_missing([name], there, str)
    curve = pd.read_csv(folder_of(run(name), there) / "curve.csv")
    assert curve["update"].tolist() == [10, 20] and curve["restarted"].tolist()[1] == 13
    refuses(lambda: hb.load(f"{name}@9"), "no model was kept at update 9")


@pytest.mark.parametrize(
    ("of", "function", "call", "left"),
    [(shutil, "copy", 1, 8), (os, "fsync", 2, 8), (shutil, "rmtree", 2, 9)],
    ids=["writing", "written", "renamed"],
)
def test_a_kill_leaves_the_old_weights_or_the_new(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch,
    of: ModuleType, function: str, call: int, left: int,
) -> None:  # fmt: skip
    name, store, there = "controlled-sov-16", Store(tmp_path / "runs"), data / "models"
    stop_after(monkeypatch, 9)
    assert not train_missing([name], store, str)
    publish_weights(f"{name}@8", store).rename(there / name)  # older weights of the same name
    real, calls = getattr(of, function), itertools.count(1)

    def struck(*given: Any, **more: Any) -> Any:
        return kill() if next(calls) == call else real(*given, **more)

    assert killed(lambda: setattr(of, function, struck), lambda: publish_weights(name, store))
    for updates in (left, 9):
        record = json.loads((there / name / "run.json").read_text())
        found = digests(there / name)
        assert record["updates"] == updates
        assert record["files"] == {each: found[each] for each in found if each != "run.json"}
        publish_weights(name, store)
    assert [each.name for each in there.iterdir() if each.is_dir()] == [name]


def test_two_that_publish_weights_wait_for_each_other(tmp_path: Path, data: Path, monkeypatch):
    name, store = "controlled-sov-16", Store(tmp_path / "runs")
    stop_after(monkeypatch, 9)
    assert not train_missing([name], store, str)
    (data / "models").mkdir()
    other = threading.Thread(target=publish_weights, args=(name, store))
    with FileLock(data / "models" / f".{name}.lock", thread_local=False):
        other.start()
        other.join(timeout=1)
        assert other.is_alive() and not (data / "models" / name).exists()
    other.join()
    assert (data / "models" / name / "run.json").is_file()
