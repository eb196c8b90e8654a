"""The measuring pass: one forward pass over the batches, all measures updated from it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import torch
from tqdm import tqdm

from headbook.heads.recording import Recording, Shared
from headbook.models.capture import Point, capture
from headbook.text.batches import Batch

Progress = Callable[[Iterable[Batch]], Iterable[Batch]]


@runtime_checkable
class Measure(Protocol):
    """Something that is updated batch by batch with what it reads of the model at one point.

    One that reads several lists them all in `points`.
    """

    point: Point

    def update(self, tape: Recording, batch: Batch) -> None: ...


def collect(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    measures: Sequence[Measure],
    progress: Progress = tqdm,
    training: bool = False,
) -> None:
    """Updates the measures with what the model does on the batches.

    The model runs in evaluation mode, or in that of `training` with its dropout, without gradients,
    and is left in the mode it was in; batches are moved to its device. One batch's recording is
    held at a time.
    """
    device = next(model.parameters()).device
    points = {point for each in measures for point in getattr(each, "points", (each.point,))}
    before = model.training
    model.train(training)
    try:
        for batch in progress(batches):
            _measure(model, batch.to(device), measures, points)
    finally:
        model.train(before)


@torch.inference_mode()
def _measure(
    model: torch.nn.Module, batch: Batch, measures: Sequence[Measure], points: set[Point]
) -> None:
    with capture(model, points) as tape:
        model(batch)
    shared = Shared(tape)
    for measure in measures:
        measure.update(shared, batch)
