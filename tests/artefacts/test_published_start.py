"""Going on from published weights where a training has no checkpoint."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from headbook import paths
from headbook.artefacts.trained import published_start
from headbook.runs.canonical import plain
from headbook.runs.store import ELSEWHERE, Ingredients, Stage, Store
from headbook.training.loop import STATE

POLICY = {"precision": "bf16-mixed", "device": "cpu"}
ASKED = Ingredients(Stage("model", 1), {"width": (8, 16)}, {"corpus": "0123"}, POLICY)


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model after 30 of 100 updates, in a folder of data/models."""
    monkeypatch.setattr(paths, "DATA", tmp_path)
    folder = tmp_path / "models" / "small"
    folder.mkdir(parents=True)
    recorded(folder, updates=30)
    curve = {"update": [10, 15, 20], "target_tokens": [100, 40, 90], "seconds": [5.0, 1.0, 3.0],
             "restarted": [None, 10, 10]}  # fmt: skip
    pd.DataFrame(curve).to_csv(folder / "curve.csv", index=False)
    return folder


def recorded(folder: Path, updates: int, asked: Ingredients = ASKED) -> None:
    record = {"ingredients": plain(asked), "updates": updates, "planned": 100,
              "commit": "0123abcd", "hardware": {"gpu": "a GPU"}, "date": "2026-11-26"}  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))


def test_the_weights_of_the_same_training_are_found(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture
):
    start = published_start(ASKED, tmp_path)
    assert start.update == 30 and start.weights == published / "best.safetensors"
    assert [row["update"] for row in start.curve] == [10, 15, 20]
    (line,) = capsys.readouterr().out.splitlines()
    assert "after update 30" in line and str(published) in line


def test_without_a_curve_it_begins_there(published: Path, tmp_path: Path):
    (published / "curve.csv").unlink()
    assert published_start(ASKED, tmp_path).curve == []


@pytest.mark.parametrize("other", ["stage", "config", "inputs", "policy"])
def test_those_of_another_training_are_not(published: Path, tmp_path: Path, other: str):
    exact = POLICY | {"precision": "32-true"}
    changed = {"stage": Stage("model", 2), "config": {"width": (8, 32)},
               "inputs": {"corpus": "4567"}, "policy": exact}  # fmt: skip
    recorded(published, 30, Ingredients(**vars(ASKED) | {other: changed[other]}))
    assert published_start(ASKED, tmp_path) is None


def test_on_another_device_they_are_the_same_training(published: Path, tmp_path: Path):
    there = replace(ASKED, policy=POLICY | {"device": "cuda"})
    recorded(published, 30, there)
    assert published_start(ASKED, tmp_path).update == 30


def test_those_of_its_end_are_the_trained_model(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture
):
    recorded(published, updates=100)
    assert published_start(ASKED, tmp_path).update == 100
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("taking the trained model of") and "Adam" not in line


def test_the_record_of_a_model_taken_over_is_that_of_the_machine_that_trained_it(
    published: Path, tmp_path: Path
):
    recorded(published, updates=100)
    store = Store(tmp_path / "runs")
    folder = store.get(ASKED, lambda aside: published_start(ASKED, aside))
    kept = json.loads((folder / "run.json").read_text())
    assert (kept["commit"], kept["hardware"], kept["started"], kept["seconds"]) == (
        "0123abcd", {"gpu": "a GPU"}, "2026-11-26", 8.0
    )  # fmt: skip


def test_of_weights_on_the_way_nothing_is_told(published: Path, tmp_path: Path):
    published_start(ASKED, tmp_path)
    assert not (tmp_path / ELSEWHERE).exists()


def test_its_own_checkpoint_comes_first(published: Path, tmp_path: Path):
    (tmp_path / STATE).touch()
    assert published_start(ASKED, tmp_path) is None
