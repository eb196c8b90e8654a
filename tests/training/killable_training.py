"""A training by its recipe, killed where it is told to.

`train(STORE, CORPUS, PLACE)` asks STORE for it; SIGKILL strikes the process at that place, or
nowhere where it is `finish`.
"""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import lightning.fabric  # noqa: F401, once before the forks: training imports it late, in seconds
import torch
from safetensors.torch import save_file

sys.path.append(str(Path(__file__).parents[1]))  # it is run by its path
from small import translation_run

from headbook.models import checkpoint
from headbook.runs.store import Store
from headbook.text.subwords import Subwords
from headbook.training import models
from headbook.training import train as trainings
from headbook.training.loop import Trainer


def kill(*arguments: object, **named: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half_written(tensors: dict, path: Path, metadata: dict) -> None:
    """Half of a checkpoint after two updates."""
    save_file(tensors, path, metadata=metadata)
    if path.name == "state.aside" and json.loads(metadata["note"])["update"] == 2:
        os.truncate(path, path.stat().st_size // 2)
        kill()


def strike(place: str) -> None:
    """Puts the kill in the training's way."""
    if place == "subwords":
        save = Subwords.save
        Subwords.save = lambda self, path: kill() if path.stem == "target" else save(self, path)
    elif place == "training":
        update = Trainer._update
        Trainer._update = lambda self, batch: (
            kill() if self.progress.update == 3 else update(self, batch)
        )
    elif place == "half-written":
        checkpoint.save_file = half_written
    elif place == "scoring":
        models.bleu = kill
    elif place == "renaming":
        Path.rename = kill


def train(store: str, corpus: str, place: str) -> None:
    torch.set_num_threads(1)
    trainings.Trainer = partial(Trainer, save_every=0.0)
    strike(place)
    trainings.trained(translation_run(Path(corpus)), Store(Path(store)))
