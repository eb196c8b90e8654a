"""Weights of a model trained here, in 16 bits under data/models, for others to load by its name."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from filelock import FileLock
from torch import Tensor

from headbook.looking.ours import SOURCE, TARGET
from headbook.models import checkpoint
from headbook.recipes import weights_folder
from headbook.runs import record
from headbook.runs.canonical import plain
from headbook.runs.store import RECORD, Store, checked, digests, synced
from headbook.training.loop import BEST, SNAPSHOTS, STATE
from headbook.training.models import ingredients, run
from headbook.training.train import CURVE, snapshot
from headbook.types import UserError


def publish_weights(name: str, store: Store) -> Path:
    """Writes weights, subwords, learning curve and record of a model; returns their folder.

    The snapshot of `NAME@UPDATE`; of a plain name the best model of a finished training, and of one
    under way the checkpoint that it would resume from. The record says which, after how many
    updates of those planned, and holds the files' digests. A kill leaves the old folder or the new
    one; between two renamings, for less than a millisecond, neither is in its place. UserError for
    a model that is not begun, or an update that it did not save.
    """
    base, _, update = name.partition("@")
    wanted = run(base)
    asked, planned = ingredients(wanted), wanted.training.updates
    done = store.has(asked)
    folder = store.folder(asked) if done else store.under_way(asked)
    if folder is None:
        raise UserError(f"{base} is not trained here yet: `headbook train {base}` trains it")
    if update:
        tensors, note = checkpoint.read(checked(folder, snapshot(folder, update)))
        updates = int(update)
    elif done:
        tensors, note = checkpoint.read(checked(folder, BEST))
        updates = planned
    else:
        tensors, note, updates = _checkpoint(folder)
    final = weights_folder(name)
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(final.parent / f".{final.name}.lock"):
        work = final.with_name(f".{final.name}.partial")
        shutil.rmtree(work, ignore_errors=True)
        (aside := work / "new").mkdir(parents=True)
        halves = {each: tensor.to(torch.bfloat16) for each, tensor in tensors.items()}
        checkpoint.write(aside / BEST, halves, note)
        for subwords in (SOURCE, TARGET):
            if (folder / subwords).is_file():
                shutil.copy(folder / subwords, aside)
        if not (curve := _curve(folder, updates)).empty:
            curve.to_csv(aside / CURVE, index=False)
        made = json.loads((folder / RECORD).read_text()) if done else {}
        about = {
            "ingredients": plain(asked),
            "updates": updates,
            "planned": planned,
            "precision": "bfloat16",
            "files": digests(aside),
            "commit": made.get("commit", record.commit()),
            "hardware": made.get("hardware", record.hardware()),
            "date": made.get("started", record.now()),
        }
        (aside / RECORD).write_text(json.dumps(about, indent=1) + "\n")
        synced(aside)
        if final.exists():
            final.rename(work / "old")
        aside.rename(final)
        shutil.rmtree(work, ignore_errors=True)
    return final


def _checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], int]:
    """Weights, shape and update of the checkpoint of a training under way."""
    tensors, progress = checkpoint.read(folder / STATE)
    shape = checkpoint.note_of(max(folder.glob(SNAPSHOTS)))
    of_model = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    return of_model, shape, progress["update"]


def _curve(folder: Path, updates: int) -> pd.DataFrame:
    """The rows of the learning curve so far."""
    if (folder / CURVE).is_file():
        rows = pd.read_csv(folder / CURVE)
    else:
        rows = pd.DataFrame(checkpoint.note_of(folder / STATE)["curve"])
    return rows if rows.empty else rows[rows["update"] <= updates]
