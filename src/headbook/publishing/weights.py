"""Weights of a model trained here, in 16 bits under data/models, for others to load by its name."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from headbook.artefacts.catalogue import weights_folder
from headbook.artefacts.trained import CURVE, RECORD
from headbook.looking.on_the_way import OnTheWay
from headbook.looking.ours import SOURCE, TARGET, WEIGHTS
from headbook.runs import record
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.training import checkpoint
from headbook.training.loop import STATE


def publish_weights(name: str, store: Store, update: int | None = None) -> Path:
    """Writes weights, subwords, learning curve and record of a model; returns their folder.

    The snapshot of `update`; by default the best model of a finished training, and of one under
    way the checkpoint that it would resume from: on a machine without it, the training goes on from
    these weights. The record says which, after how many updates of those planned, and holds the
    SHA-256 of the weights. UserError for a model that is not begun, or an update that it did not
    save.
    """
    training = OnTheWay.of(name, store)
    folder, done = training.trained.folder, store.has(training.asked)
    final = weights_folder(name)
    aside = final.with_suffix(".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    if update is None and not done:
        tensors, note, update = _checkpoint(training)
    else:
        file = folder / WEIGHTS if update is None else training.file(update)
        tensors, note = checkpoint.read(file)
    halves = {each: tensor.to(torch.bfloat16) for each, tensor in tensors.items()}
    checkpoint.write(aside / WEIGHTS, halves, note)
    for subwords in (SOURCE, TARGET):
        if (folder / subwords).is_file():
            shutil.copy(folder / subwords, aside)
    updates = training.planned if update is None else update
    if not (curve := _curve(folder, updates)).empty:
        curve.to_csv(aside / CURVE, index=False)
    record_of = _record(training, updates, aside, done)
    (aside / RECORD).write_text(json.dumps(record_of, indent=1) + "\n")
    shutil.rmtree(final, ignore_errors=True)
    aside.rename(final)
    return final


def _checkpoint(training: OnTheWay) -> tuple[dict[str, Tensor], dict[str, Any], int]:
    """Weights, shape and update of the checkpoint of a training under way."""
    tensors, progress = checkpoint.read(training.trained.folder / STATE)
    shape = checkpoint.note_of(training.file(training.updates[-1]))
    of_model = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    return of_model, shape, progress["update"]


def _curve(folder: Path, updates: int) -> pd.DataFrame:
    """The rows of the learning curve so far."""
    if (folder / CURVE).is_file():
        rows = pd.read_csv(folder / CURVE)
    else:
        rows = pd.DataFrame(checkpoint.note_of(folder / STATE)["curve"])
    return rows if rows.empty else rows[rows["update"] <= updates]


def _record(training: OnTheWay, updates: int, aside: Path, done: bool) -> dict[str, object]:
    made = json.loads((training.trained.folder / RECORD).read_text()) if done else {}
    return {
        "ingredients": plain(training.asked),
        "updates": updates,
        "planned": training.planned,
        "precision": "bfloat16",
        "sha256": hashlib.sha256((aside / WEIGHTS).read_bytes()).hexdigest(),
        "commit": made.get("commit", record.commit()),
        "hardware": made.get("hardware", record.hardware()),
        "date": made.get("started", record.now()),
    }
