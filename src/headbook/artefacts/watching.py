"""Looking at a training as it goes: the four metrics of diversity at chosen updates, kept."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.diversity_in_training import diversity_in_training
from headbook.heads.four_metrics import Found, four_metrics
from headbook.models.transformer import Transformer
from headbook.training import checkpoint
from headbook.types import Kind

PROBE, TRAINING, NOTEBOOK = "probe", "training batch", "as the notebook"
SEPARATOR = "/"


@dataclass(frozen=True)
class Watched:
    """When a training is looked at, and on how many segments: every update up to `dense`.

    Never where `every` is 0.
    """

    segments: int = 8
    dense: int = 40
    every: int = 5

    def due(self, update: int) -> bool:
        return self.every > 0 and (update < self.dense or update % self.every == 0)


@dataclass(frozen=True)
class WatchedAsRun(Watched):
    """And measured as the X-raying article's notebook does, see heads/diversity_in_training.py."""

    notebook: bool = True


@dataclass(frozen=True)
class Watcher:
    """Measures a decoder on fixed batches and on the first segments of the batch it learns from.

    One small file an update: made again, after a kill, it is the same file. The model is measured
    in evaluation mode, or with random numbers of the measurement's own, so none of the training is
    drawn.
    """

    folder: Path
    probe: Sequence[Batch]
    watched: Watched

    def __call__(self, model: Transformer, batch: Batch, update: int, loss: float) -> None:
        if not self.watched.due(update):
            return
        began = time.monotonic()
        found = {
            PROBE: four_metrics(model, Kind.DECODER, self.probe),
            TRAINING: four_metrics(model, Kind.DECODER, [first(batch, self.watched.segments)]),
        }
        if isinstance(self.watched, WatchedAsRun):
            found[NOTEBOOK] = diversity_in_training(model, Kind.DECODER, batch)
        tensors = {
            SEPARATOR.join((text, *address)): values
            for text, own in found.items()
            for address, values in own.items()
        }
        note = {"update": update, "loss_nats": loss, "seconds": time.monotonic() - began}
        self.folder.mkdir(exist_ok=True)
        checkpoint.write(self.folder / f"{update:07d}.safetensors", tensors, note)


def first(batch: Batch, count: int) -> Batch:
    """The first sentences of a batch."""
    return batch.select(slice(count))


@dataclass(frozen=True)
class Look:
    """Measurements at one update; `loss_nats` is of the whole batch, before its step."""

    update: int
    loss_nats: float
    seconds: float
    found: Mapping[str, Found]  # by text


def looks_in(folder: Path) -> list[Look]:
    """Everything a watcher kept there, in the order of the updates."""
    return [_look(path) for path in sorted(folder.glob("*.safetensors"))]


def _look(path: Path) -> Look:
    tensors, note = checkpoint.read(path)
    found: dict[str, dict[tuple[str, str], Tensor]] = {}
    for name, values in tensors.items():
        text, metric, form = name.split(SEPARATOR)
        found.setdefault(text, {})[metric, form] = values
    return Look(**note, found=found)
