"""Weights of a model trained here, in 16 bits under data/models, for others to load by its name."""

import hashlib
import json
import shutil
from pathlib import Path

import torch

from headbook.artefacts.catalogue import weights_folder
from headbook.looking.on_the_way import OnTheWay
from headbook.looking.ours import SOURCE, TARGET, WEIGHTS
from headbook.runs import record
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.training import checkpoint

RECORD = "run.json"


def publish_weights(name: str, store: Store, update: int | None = None) -> Path:
    """Writes weights, subwords and record of a model; returns their folder.

    The model at `update`; by default the best of a finished training, and of one that is under way
    the last that it saved. The record says which, after how many updates of those planned, and
    holds the SHA-256 of the weights. UserError for a model that is not begun, or an update that
    it did not save.
    """
    training = OnTheWay.of(name, store)
    folder, done = training.trained.folder, store.has(training.asked)
    if update is None and not done:
        update = training.updates[-1]
    source = folder / WEIGHTS if update is None else training.file(update)
    final = weights_folder(name)
    aside = final.with_suffix(".partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    tensors, note = checkpoint.read(source)
    halves = {each: tensor.to(torch.bfloat16) for each, tensor in tensors.items()}
    checkpoint.write(aside / WEIGHTS, halves, note)
    for subwords in (SOURCE, TARGET):
        if (folder / subwords).is_file():
            shutil.copy(folder / subwords, aside)
    (aside / RECORD).write_text(json.dumps(_record(training, update, aside, done), indent=1) + "\n")
    shutil.rmtree(final, ignore_errors=True)
    aside.rename(final)
    return final


def _record(training: OnTheWay, update: int | None, aside: Path, done: bool) -> dict[str, object]:
    made = json.loads((training.trained.folder / RECORD).read_text()) if done else {}
    return {
        "ingredients": plain(training.asked),
        "updates": training.planned if update is None else update,
        "planned": training.planned,
        "precision": "bfloat16",
        "sha256": hashlib.sha256((aside / WEIGHTS).read_bytes()).hexdigest(),
        "commit": made.get("commit", record.commit()),
        "hardware": made.get("hardware", record.hardware()),
        "date": made.get("started", record.now()),
    }
