"""The measuring pass: one forward pass over the batches, all measures updated from it."""

from collections.abc import Callable, Iterable, Sequence

import torch
from tqdm import tqdm

from headbook.corpora.batches import Batch
from headbook.heads.measure import HeadMeasure
from headbook.heads.recording import Shared
from headbook.models.capture import Point, capture

Progress = Callable[[Iterable[Batch]], Iterable[Batch]]


def collect(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    measures: Sequence[HeadMeasure],
    progress: Progress = tqdm,
) -> None:
    """Updates the measures with what the model does on the batches.

    The model runs in evaluation mode, without gradients, and is left in the mode it was in; batches
    are moved to its device. One batch's recording is held at a time.
    """
    device = next(model.parameters()).device
    points = {measure.point for measure in measures}
    training = model.training
    model.eval()
    try:
        for batch in progress(batches):
            _measure(model, batch.to(device), measures, points)
    finally:
        model.train(training)


@torch.inference_mode()
def _measure(
    model: torch.nn.Module, batch: Batch, measures: Sequence[HeadMeasure], points: set[Point]
) -> None:
    with capture(model, points) as tape:
        model(batch)
    shared = Shared(tape)
    for measure in measures:
        measure.update(shared, batch)
