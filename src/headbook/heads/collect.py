"""The measuring pass: what a model does on a text, batch by batch."""

from collections.abc import Callable, Collection, Iterable, Iterator

import torch

from headbook.heads.recording import Shared
from headbook.models.capture import Point, capture
from headbook.text.batches import Batch

Progress = Callable[[Iterable[Batch]], Iterable[Batch]]


def recordings(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    points: Collection[Point] = (Point.WEIGHTS,),
    progress: Progress = iter,
    training: bool = False,
) -> Iterator[tuple[Shared, Batch]]:
    """What the model does at these points on each batch, without gradients.

    The model runs in evaluation mode, or in that of `training` with its dropout, and is left in the
    mode it was in; batches are moved to its device. One batch's recording is held at a time.
    """
    device = next(model.parameters()).device
    before = model.training
    model.train(training)
    try:
        for batch in progress(batches):
            batch = batch.to(device)
            with torch.inference_mode(), capture(model, set(points)) as tape:
                model(batch)
            yield Shared(tape), batch
    finally:
        model.train(before)
