"""Everything that a GPU is to do: that it can be asked for, and is done on next to nothing."""

import inspect
import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest
import yaml

import headbook.workflow as workflow
from headbook import paths
from headbook.experiments.heads_out import silenced
from headbook.experiments.until_settled import Setting, sweep
from headbook.training.models import EncoderRun, run

ITEMS = yaml.safe_load((Path(workflow.__file__).parent / "on_a_gpu.yml").read_text("utf-8"))


@pytest.mark.parametrize("item", ITEMS.values(), ids=list(ITEMS))
def test_an_item_names_models_and_settings_that_there_are(item: dict) -> None:
    assert item.keys() <= {"train", "tested", "sweeps"}
    known = {each.name for each in fields(Setting)} | set(inspect.signature(sweep).parameters)
    translators = set(item.get("tested", {}))
    for asked in item.get("sweeps", ()):
        assert asked.keys() <= known and 0 < len(asked["penalties"]) == len(set(asked["penalties"]))
        translators.add(asked["model"])
    assert not any(isinstance(run(name), EncoderRun) for name in translators)
    assert all(run(name).training.updates for name in item.get("train", ()))


@pytest.mark.slow
def test_trainings_prunings_and_heads_out_come_back_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a clone of its own, to whose data the weights are written."""
    clone, out = tmp_path / "a clone", tmp_path / "carried home"
    shutil.copytree(paths.REPOSITORY / "src", clone / "src")
    (clone / "data").mkdir()
    for name in ("models.toml", "corpora.toml", "claims.yml"):
        shutil.copy(paths.DATA / name, clone / "data")
    given = os.environ | {"PYTHONPATH": str(clone / "src"), "HEADBOOK_RUNS": str(clone / "runs")}
    command = [sys.executable, "-m", "headbook.workflow.on_a_gpu"]
    done = subprocess.run([*command, "smoke", out], env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (name,), (asked,) = ITEMS["smoke"]["tested"], ITEMS["smoke"]["sweeps"]
    assert (out / "models" / name / "best.safetensors").is_file()
    assert not pd.read_csv(out / "trained" / name / "bleu.csv").empty

    shutil.copytree(out / "models", clone / "data" / "models", dirs_exist_ok=True)
    monkeypatch.setattr(paths, "DATA", clone / "data")
    monkeypatch.setenv("HEADBOOK_RUNS", str(out / "runs"))
    trainings, _ = sweep(minutes=0.0, **asked)  # all of it is kept
    assert set(trainings["chosen"]) == {"whole", "gates", "random", "importance", "scratch"}
    kept = sorted(out.glob("runs/cached/*/run.json"))
    silenced(name, ITEMS["smoke"]["tested"][name], [[], ["L1H1"], ["cross L2H2"]])
    assert sorted(out.glob("runs/cached/*/run.json")) == kept

    wrong = subprocess.run([*command, "smok", out], env=given, capture_output=True, text=True)
    assert (
        wrong.returncode == 2 and len(wrong.stderr.splitlines()) == 1 and "'smoke'" in wrong.stderr
    )
