"""Training by name: killed anywhere it ends the same, cut in time, gone on from published weights.

The models are those of tests/small.py, under names of a test's own.
"""

import hashlib
import json
import math
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from forking import Program
from small import masked_run, translation_run, write_corpus
from typer.testing import CliRunner, Result

import headbook as hb
from headbook import paths
from headbook.cli import app
from headbook.models import checkpoint
from headbook.publishing.weights import publish_weights
from headbook.runs.canonical import plain
from headbook.runs.store import ELSEWHERE, Ingredients, Stage, Store
from headbook.training import train as trainings
from headbook.training.loop import STATE
from headbook.training.models import Run, initial, run
from headbook.training.processes import Clock, Due
from headbook.training.train import folder_of, published_start, snapshot, train_missing
from headbook.types import UserError

pytestmark = pytest.mark.slow
KILLED = -signal.SIGKILL
SCRIPT = Path(__file__).with_name("killable_training.py")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture(autouse=True)
def named(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Run]:
    """Two names, one of each task."""
    found = {"translates": translation_run(corpus), "masked": masked_run(corpus)}
    monkeypatch.setattr(trainings, "run", found.__getitem__)
    return found


def results(store: Path, stage: str = "model") -> dict[str, object]:
    """Every file of the one finished run but its record; the curve without its seconds."""
    (record,) = (store / stage).glob("*/run.json")
    files: dict[str, object] = {
        path.name: path.read_bytes() for path in record.parent.iterdir() if path != record
    }
    curve = pd.read_csv(record.parent / "curve.csv").drop(columns="seconds")
    return files | {"curve.csv": curve.to_csv()}


@pytest.fixture(scope="module")
def stage_killed() -> Iterator[Program]:
    with Program.of_script(SCRIPT, "train") as program:
        yield program


def test_killed_in_every_phase_it_ends_the_same(
    tmp_path: Path, corpus: Path, stage_killed: Program
) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"

    def status(store: Path, place: str) -> int:
        return stage_killed.run([str(store), str(corpus), place], tmp_path).returncode

    assert status(unbroken, "finish") == 0
    phases = ("subwords", "half-written", "training", "scoring", "renaming")
    assert [status(broken, phase) for phase in phases] == [KILLED] * len(phases)
    assert [path.suffix for path in (broken / "model").iterdir() if path.is_dir()] == [".partial"]
    assert status(broken, "finish") == 0
    assert results(broken) == results(unbroken)
    assert not list((broken / "model").glob("*.partial"))


def stop_after(monkeypatch: pytest.MonkeyPatch, update: int) -> None:
    """Time runs out after so many updates of this process."""
    passed = iter(range(1, update + 1))
    monkeypatch.setattr(
        Clock, "due", lambda self: Due.STOP if next(passed, update) == update else Due.NOTHING
    )


def test_cut_and_continued_it_ends_bit_for_bit_as_uncut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut in both trainings, once at the end of the updates; then all is kept."""
    cut, uncut, said = Store(tmp_path / "cut"), Store(tmp_path / "uncut"), []
    both = ("translates", "masked")
    assert not train_missing(both, cut, said.append, deadline=0.0)
    assert said == ["stopped before translates; the same command continues"]
    for count, line in (
        (2, "translates stopped at update 2 of 6"),
        (4, "translates stopped at update 6 of 6"),
        (3, "masked stopped at update 3 of 6"),
    ):
        with monkeypatch.context() as patch:
            stop_after(patch, count)
            assert not train_missing(both, cut, said.append)
        assert said[-1] == f"{line}; the same command continues"
    assert train_missing(both, cut, said.append) and "masked: trained" in said[-1]
    assert train_missing(both, cut, said.append, deadline=0.0) and said[-1] == "masked: kept"
    assert train_missing(both, uncut, str)
    for stage in ("model", "encoder"):
        assert results(cut.root, stage) == results(uncut.root, stage)


def test_a_run_holds_what_is_read_of_it(tmp_path: Path, named: dict[str, Run]) -> None:
    store = Store(tmp_path)
    train_missing(named, store, str)
    folder, masked = (folder_of(each, store) for each in named.values())
    bleu = pd.read_csv(folder / "bleu.csv")
    assert bleu[["test", "casing"]].values.tolist() == [["test", "cased"], ["test", "lower"]]
    assert len((folder / "test.txt").read_text().splitlines()) == 20
    assert pd.read_csv(folder / "curve.csv")["update"].tolist() == [2, 4, 6]
    assert json.loads((masked / "scores.json").read_text())["test_nats"] > 1
    assert not list(folder.glob("state*"))
    untrained, early, last = (
        each.logits.weight.sum().item()
        for each in (initial(named["translates"], folder), *(
            checkpoint.load_transformer(folder / snapshot(folder, at)) for at in ("2", "6")
        ))
    )  # fmt: skip
    assert len({untrained, early, last}) == 3
    with pytest.raises(UserError, match="update 5; kept: 2, 3, 4, 6"):
        snapshot(folder, "5")
    assert folder_of(replace(named["masked"], training=named["translates"].training), store)
    assert folder_of(replace(named["translates"], vocabulary=61), store) is None
    words = (masked / "source.json").read_bytes()
    assert words == (folder / "source.json").read_bytes()


# ------------------------------------------------------------------ published weights

POLICY = {"precision": "bf16-mixed", "device": "cpu"}
ASKED = Ingredients(Stage("model", 1), {"width": (8, 16)}, {"corpus": "0123"}, POLICY)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model after 30 of 100 updates, in a folder of data/models; and a snapshot before it."""
    monkeypatch.setattr(paths, "DATA", tmp_path)
    for name, update in (("small", 30), ("small@8", 8)):
        (tmp_path / "models" / name).mkdir(parents=True)
        recorded(tmp_path / "models" / name, update)
    curve = {"update": [10, 15, 20], "target_tokens": [100, 40, 90], "seconds": [5.0, 1.0, 3.0],
             "restarted": [None, 10, 10]}  # fmt: skip
    pd.DataFrame(curve).to_csv(tmp_path / "models" / "small" / "curve.csv", index=False)
    return tmp_path / "models" / "small"


def recorded(folder: Path, updates: int, asked: Ingredients = ASKED) -> None:
    record = {"ingredients": plain(asked), "updates": updates, "planned": 100,
              "commit": "0123abcd", "hardware": {"gpu": "a GPU"}, "date": "2026-11-26"}  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))


def test_the_latest_weights_of_the_same_training_are_gone_on_from(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    start = published_start(ASKED, tmp_path)
    assert start.update == 30 and start.weights == published / "best.safetensors"
    assert [row["update"] for row in start.curve] == [10, 15, 20]
    (line,) = capsys.readouterr().out.splitlines()
    assert "after update 30" in line and not (tmp_path / ELSEWHERE).exists()
    (published / "curve.csv").unlink()
    assert published_start(ASKED, tmp_path).curve == []


@pytest.mark.parametrize("other", ["stage", "config", "inputs", "policy"])
def test_those_of_another_training_are_not(tmp_path: Path, published: Path, other: str) -> None:
    changed = {
        "stage": Stage("model", 2),
        "config": {"width": (8, 32)},
        "inputs": {"corpus": "4567"},
        "policy": POLICY | {"precision": "32-true"},
    }
    asked = Ingredients(**vars(ASKED) | {other: changed[other]})
    assert published_start(asked, tmp_path) is None
    elsewhere = replace(ASKED, policy=POLICY | {"device": "cuda"})
    assert published_start(elsewhere, tmp_path).update == 30


def test_a_checkpoint_of_its_own_comes_first(published: Path, tmp_path: Path) -> None:
    (tmp_path / STATE).touch()
    assert published_start(ASKED, tmp_path) is None


def test_a_model_taken_over_has_the_record_of_the_machine_that_trained_it(
    published: Path, tmp_path: Path
) -> None:
    recorded(published, updates=100)
    store = Store(tmp_path / "runs")
    folder = store.get(ASKED, lambda aside: published_start(ASKED, aside))
    kept = json.loads((folder / "run.json").read_text())
    assert (kept["commit"], kept["hardware"], kept["started"], kept["seconds"]) == (
        "0123abcd", {"gpu": "a GPU"}, "2026-11-26", 8.0
    )  # fmt: skip


@pytest.mark.usefixtures("few_generated")
def test_what_is_published_on_the_way_is_loaded_and_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A snapshot and the checkpoint of a training under way; then another machine ends it."""
    name = "controlled-sov-16"
    monkeypatch.setattr(trainings, "run", run)
    data = tmp_path / "data"
    data.mkdir()
    for file in ("models.toml", "corpora.toml"):
        (data / file).write_bytes((paths.DATA / file).read_bytes())
    monkeypatch.setattr(paths, "DATA", data)
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    with pytest.raises(UserError, match=f"`headbook train {name}`"):
        publish_weights(name, here)
    with monkeypatch.context() as patch:
        stop_after(patch, 13)
        assert not train_missing([name], here, str)
    early, late = (publish_weights(each, here) for each in (f"{name}@8", name))
    records = [json.loads((each / "run.json").read_text()) for each in (early, late)]
    assert [(each["updates"], each["planned"]) for each in records] == [(8, 20), (13, 20)]
    weights = (late / "best.safetensors").read_bytes()
    assert records[1]["sha256"] == hashlib.sha256(weights).hexdigest()
    monkeypatch.setenv("HEADBOOK_RUNS", str(there.root))
    loaded = [hb.load(each) for each in (name, f"{name}@8", f"{name}@0")]
    assert [each.name for each in loaded] == [name, f"{name}@8", f"{name}@0"]
    assert len({each.network.logits.weight.sum().item() for each in loaded}) == 3
    capsys.readouterr()
    assert train_missing([name], there, str)
    assert "going on from" in capsys.readouterr().out
    curve = pd.read_csv(folder_of(run(name), there) / "curve.csv")
    assert curve["update"].tolist() == [10, 20] and curve["restarted"].tolist()[1] == 13
    assert math.isnan(curve["restarted"][0])
    assert hb.load(f"{name}@16").network.config.width == 16
    with pytest.raises(UserError, match="no model was kept at update 9"):
        hb.load(f"{name}@9")


# ------------------------------------------------------------------ the command


def headbook(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_no_model_is_begun_when_time_is_up(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    monkeypatch.setattr(trainings, "run", run)
    result = headbook("train", "controlled-sov-16", "--minutes", "1e-9")
    assert (result.exit_code, result.stdout) == (
        3, "stopped before controlled-sov-16; the same command continues\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("controlled-sov-16", "--minutes", "0"), "minutes is 0.0; give more than 0"),
        (("controlled-sov-61",), "did you mean"),
        (("controlled-sov-16", "--plan", "--rate", "-2"), "rate is -2"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = headbook("train", *arguments)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr
