"""A tiny training that is killed where it is told to.

`train(FOLDER, ORDER)` trains in the folder, saving after every update. The order is `finish`, or
PLACE:UPDATE, where SIGKILL strikes the process at the place in that update.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import lightning.fabric  # noqa: F401, once before the forks: training imports it late, in seconds
import torch

from headbook.corpora.batches import EOS, EncodedPair
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer

UPDATES = 24
PLACES = ("forward", "optimiser", "before-save", "half-written", "before-rename")


def pairs(count: int, seed: int) -> list[EncodedPair]:
    """Copy task of ragged lengths over twenty pieces."""
    chance = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (count,), generator=chance).tolist()
    rows = [[*torch.randint(3, 20, (n,), generator=chance).tolist(), EOS] for n in lengths]
    return [(row, row) for row in rows]


def trainer(folder: Path) -> Trainer:
    """Dropout is on, so that a lost random state would show; three epochs fall in the updates."""
    torch.manual_seed(0)
    config = TransformerConfig(20, 20, 1, 1, width=16, feed_forward=32, heads=2, dropout=0.2)
    training = TrainingConfig(UPDATES, tokens=60, validate_every=5, first_snapshot=4, warmup=10)
    return Trainer(Transformer(config), training, pairs(60, 1), pairs(12, 2), folder, save_every=0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def strike(trainer: Trainer, place: str, update: int) -> None:
    """Arranges the kill: the named function dies when that update has come."""

    def deadly(function: Callable) -> Callable:
        def wrapped(*arguments: object, **named: object) -> object:
            if trainer.progress.update >= update:
                kill()
            return function(*arguments, **named)

        return wrapped

    if place == "forward":
        trainer.model.decode = deadly(trainer.model.decode)
    elif place == "optimiser":
        trainer.optimiser.step = deadly(trainer.optimiser.step)
    elif place == "before-save":
        trainer._save = deadly(trainer._save)
    elif place == "half-written":
        checkpoint.save_file = half_written(trainer, update)
    else:
        Path.replace = deadly(Path.replace)


def half_written(trainer: Trainer, update: int) -> Callable:
    whole = checkpoint.save_file

    def write(tensors: dict, path: Path, metadata: dict) -> None:
        whole(tensors, path, metadata=metadata)
        if trainer.progress.update >= update:
            os.truncate(path, path.stat().st_size // 2)
            kill()

    return write


def train(folder: str, order: str) -> None:
    torch.set_num_threads(1)
    Path(folder).mkdir(exist_ok=True)
    made = trainer(Path(folder))
    if order != "finish":
        place, update = order.split(":")
        strike(made, place, int(update))
    made.run()
