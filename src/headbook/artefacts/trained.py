"""Training what the store lacks, whatever the task, and the files that every training leaves."""

import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import pandas as pd
import torch

from headbook import paths
from headbook.models.transformer import Transformer
from headbook.runs.canonical import plain
from headbook.runs.seeds import derived
from headbook.runs.store import ELSEWHERE, Ingredients, Stage, Store
from headbook.training import checkpoint, processes
from headbook.training.config import TrainingConfig
from headbook.training.loop import STATE, OutOfTimeError, Start
from headbook.types import UserError

WEIGHTS, CURVE, RECORD = "best.safetensors", "curve.csv", "run.json"
"""Files of a folder of data/models, named as in a run's folder."""


def as_drawn(training: TrainingConfig) -> TrainingConfig:
    """With the seed of its own that it draws batches and dropout with."""
    return replace(training, seed=derived(training.seed, "training"))


class Trained:
    """A finished training, read from `folder`; each task adds its run, its text and its start."""

    folder: Path

    @cached_property
    def curve(self) -> pd.DataFrame:
        """One row per validation: update, tokens, training and validation loss in nats."""
        return pd.read_csv(self.folder / "curve.csv")

    @cached_property
    def scores(self) -> dict[str, Any]:
        """Of the best model on test text, by name; losses in nats per predicted token."""
        return json.loads((self.folder / "scores.json").read_text())

    @property
    def snapshots(self) -> dict[int, Path]:
        """The models saved on the way, by update."""
        files = sorted(self.folder.glob("snapshot-*.safetensors"))
        return {int(path.stem.removeprefix("snapshot-")): path for path in files}

    def untrained(self) -> Transformer:
        """The model before its first update, in eval mode."""
        raise NotImplementedError

    def model(self, update: int | None = None) -> Transformer:
        """The model with the best validation loss, or the one kept at `update`, in eval mode.

        The one at update 0 is the untrained one. UserError for an update that was not kept.
        """
        if update is None:
            return self.kept(WEIGHTS)
        if update == 0:
            return self.untrained()
        if update not in self.snapshots:
            raise UserError(f"no model was kept at update {update}; kept: {list(self.snapshots)}")
        return self.kept(self.snapshots[update].name)

    def kept(self, name: str) -> Transformer:
        """The model of one of its files, in eval mode."""
        model = self.untrained()
        checkpoint.load_model(model, self.folder / name)
        return model


@runtime_checkable
class Trainable(Protocol):
    """A run of any task, as `train_missing` reads it."""

    @property
    def training(self) -> TrainingConfig: ...

    @property
    def label(self) -> str:
        """Names the training in messages."""

    def ingredients(self) -> Ingredients:
        """The key material, for which the corpus is read."""

    def trained(self, store: Store, deadline: float = math.inf) -> Trained:
        """From the store or trained now; OutOfTimeError at the deadline."""


@runtime_checkable
class Keyed(Protocol):
    """A run by which the store finds its training."""

    stage: ClassVar[Stage]


def numeric_policy(training: TrainingConfig) -> dict[str, str]:
    """The arithmetic that decides a model: its precision, and the class of device."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return {"precision": str(training.precision), "device": device}


def trained_folder(store: Store, asked: Ingredients, train: processes.Work) -> Path:
    """The folder of a training, from the store or trained now (resuming after a kill).

    Under torchrun all processes train it.
    """
    processes.connect()
    folder = processes.together(partial(store.get, asked), train)
    if processes.is_first():
        # Only now: a kill before the folder had its final name would else train everything again.
        (folder / STATE).unlink(missing_ok=True)
    return folder


def published_start(asked: Ingredients, folder: Path) -> Start | None:
    """Where a training begins that has no checkpoint in `folder` and whose weights data/models has,
    on the way or of the end, with a line that says so. None for any other training.

    Of the end, the record will be that of the machine that trained it.
    """
    if (folder / STATE).exists():
        return None
    for record in sorted((paths.DATA / "models").glob(f"*/{RECORD}")):
        made, there = json.loads(record.read_text()), record.parent
        if _anywhere(made["ingredients"]) != _anywhere(plain(asked)):
            continue
        curve = pd.read_csv(there / CURVE) if (there / CURVE).is_file() else pd.DataFrame()
        if processes.is_first():
            done = made["updates"] >= made["planned"]
            how = "taking the trained model of" if done else "going on from"
            anew = "" if done else f" after update {made['updates']}, with Adam's moments anew"
            print(f"{how} {there}{anew}; without that folder training starts from the beginning")
            if done:
                (folder / ELSEWHERE).write_text(json.dumps(_told(made, curve)))
        return Start(there / WEIGHTS, made["updates"], curve.to_dict("records"))
    return None


def _told(made: dict[str, Any], curve: pd.DataFrame) -> dict[str, Any]:
    """The fields of a run's record that say who trained published weights, and for how long."""
    told = {"commit": made["commit"], "hardware": made["hardware"], "started": made["date"]}
    return told if curve.empty else told | {"seconds": round(float(totals(curve)["seconds"]), 1)}


def totals(curve: pd.DataFrame) -> pd.Series:
    """Target tokens and seconds of a training; one that went on from published weights counts both
    from there."""
    restarts = curve["restarted"].fillna(0) if "restarted" in curve else 0 * curve["update"]
    return curve.groupby(restarts)[["target_tokens", "seconds"]].max().sum()


def _anywhere(asked: dict[str, Any]) -> dict[str, Any]:
    """The key material without the class of device: published weights stand for it on any."""
    policy = {name: value for name, value in asked["policy"].items() if name != "device"}
    return asked | {"policy": policy}


def folder_of(run: Keyed, store: Store) -> Path | None:
    """The folder of a finished training of this run, without reading its corpus; None without one.

    The key holds the corpus' digest too: of several trainings, on other versions of the corpus or
    another device, the newest is taken.
    """
    asked = plain(run)
    return next((path for path, made in store.finished(run.stage) if made["config"] == asked), None)


def train_missing(
    runs: Iterable[Trainable], store: Store, say: Callable[[str], None], deadline: float = math.inf
) -> bool:
    """Trains the runs that the store lacks, one after the other, with a line for each.

    False where the deadline, of `time.monotonic()`, came before all were done.
    """
    processes.connect()
    said = say if processes.is_first() else str  # one process speaks for all
    done = all(_trained_in_time(run, store, said, deadline) for run in runs)
    processes.part()
    return done


def _trained_in_time(
    run: Trainable, store: Store, say: Callable[[str], None], deadline: float
) -> bool:
    if processes.firsts(store.has(run.ingredients())):
        say(f"{run.label}: kept")
        return True
    if processes.firsts(time.monotonic() >= deadline):
        say(f"stopped before {run.label}; the same command continues")
        return False
    try:
        made = run.trained(store, deadline)
    except OutOfTimeError as late:
        say(
            f"{run.label} stopped at update {late.update} of {run.training.updates}; "
            "the same command continues"
        )
        return False
    say(f"{run.label}: trained ({made.folder})")
    return True
