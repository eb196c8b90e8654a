"""The stage `model`, killed where it is told to.

`train(STORE, CORPUS, PLACE)` asks STORE for the run; SIGKILL strikes the process at that place, or
nowhere where it is `finish`.
"""

import os
import signal
from functools import partial
from pathlib import Path

import lightning.fabric  # noqa: F401, once before the forks: training imports it late, in seconds
import torch

from headbook.artefacts import model
from headbook.corpora.subwords import Subwords
from headbook.models.decoding import Search
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.precision import Precision

UPDATES = 6


def run(corpus: Path) -> model.ModelRun:
    """Two layers of width 16, six updates in 32 bits, greedy search of a few pieces."""
    training = TrainingConfig(
        UPDATES, 200, 1.1, 4, precision=Precision.FULL, validate_every=2, first_snapshot=2
    )
    size = model.Size(layers=1, width=16, feed_forward=32, heads=2)
    return model.ModelRun(str(corpus), size, 60, 0.1, training, None, Search(1, longest=0.2))


def kill(*arguments: object, **named: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def strike(place: str) -> None:
    """Puts the kill in the stage's way."""
    if place == "subwords":
        save = Subwords.save
        Subwords.save = lambda self, path: kill() if path.stem == "target" else save(self, path)
    elif place == "training":
        update = Trainer._update
        Trainer._update = lambda self, batch: (
            kill() if self.progress.update == UPDATES // 2 else update(self, batch)
        )
    elif place == "scoring":
        model.bleu = kill
    elif place == "renaming":
        Path.rename = kill


def train(store: str, corpus: str, place: str) -> None:
    torch.set_num_threads(1)
    model.Trainer = partial(Trainer, save_every=0.0)
    strike(place)
    model.trained(run(Path(corpus)), Store(Path(store)))
