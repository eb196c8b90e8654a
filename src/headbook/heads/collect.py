"""The measuring pass: what a model does on a text, batch by batch and layer by layer."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.bootstrap import Resamples
from headbook.heads.measure import REPLICATES, Measure, RatioSums
from headbook.heads.recording import Shared
from headbook.models.capture import Keep, Point, capture
from headbook.text.batches import Batch
from headbook.types import Kind

Progress = Callable[[Iterable[Batch]], Iterable[Batch]]


def recordings(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    points: Collection[Point] = (Point.WEIGHTS,),
    progress: Progress = iter,
    training: bool = False,
    kinds: Collection[Kind] = tuple(Kind),
    keep: Callable[[Batch], Keep] | None = None,
) -> Iterator[tuple[Shared, Batch]]:
    """What attention of these kinds does at these points on each batch, without gradients.

    The model runs in evaluation mode, or in that of `training` with its dropout, and is left in the
    mode it was in; batches are moved to its device. One batch's recording is held at a time, and
    with `keep` only what it makes of each value, see `capture`.
    """
    device = next(model.parameters()).device
    before, read = model.training, getattr(model, "states", model)  # logits are not looked at
    model.train(training)
    try:
        for batch in progress(batches):
            batch = batch.to(device)
            kept = keep and keep(batch)
            with torch.inference_mode(), capture(model, set(points), kinds, kept) as tape:
                read(batch)
            yield Shared(tape), batch
    finally:
        model.train(before)


@torch.inference_mode()
def layer_sums(
    model: torch.nn.Module,
    batches: Iterable[Batch],
    kind: Kind,
    measures: Mapping[str, Measure],
    replicates: int = REPLICATES,
    progress: Progress = iter,
) -> dict[str, RatioSums]:
    """As `sums` of `recordings`, for one kind of attention, with one layer's weights at a time.

    Layers may differ in their number of heads: NaN stands for those that a layer lacks.
    """

    def keep(batch: Batch) -> Keep:
        drawn = Resamples.of(batch.sentences, replicates)

        def count(own: Kind, layer: int, point: Point, weights: Tensor) -> tuple | None:
            if own is not kind:
                return None
            tape = Shared({(kind, point): [weights]})
            return layer, {
                name: RatioSums(*map(drawn.sums, measure(tape, batch)))
                for name, measure in measures.items()
            }

        return count

    found: dict[str, dict[int, RatioSums]] = {name: {} for name in measures}
    for tape, _ in recordings(model, batches, progress=progress, keep=keep):
        for layer, counted in tape[kind, Point.WEIGHTS]:
            for name, each in counted.items():
                own = found[name]
                own[layer] = own[layer] + each if layer in own else each
    layers = sum(own is kind for own, _, _ in model.attentions())
    return {name: upon([own.get(at) for at in range(layers)]) for name, own in found.items()}


def upon(layers: Sequence[RatioSums | None]) -> RatioSums:
    """Sums of single layers as those of all of them, on the CPU; None is a layer of no head."""
    numerators, denominators = (
        stacked([each and getattr(each, side)[:, :, 0].cpu() for each in layers]).movedim(0, 2)
        for side in ("numerator", "denominator")
    )
    return RatioSums(numerators, denominators)


def stacked(layers: Sequence[Tensor | None]) -> Float[Tensor, "layer ..."]:
    """One layer upon the other, NaN where one is smaller or missing."""
    widest = max((each for each in layers if each is not None), key=Tensor.numel)
    found = widest.new_full((len(layers), *widest.shape), torch.nan)
    for own, each in zip(found, layers, strict=True):
        if each is not None:
            own[tuple(map(slice, each.shape))] = each
    return found
