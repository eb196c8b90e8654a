"""Null models: the same architecture on the same text, with permuted or redrawn weights.

A head is selected as the best of as many as the model has, so its value is compared with the best
of as many heads of a network whose matrices were permuted or drawn anew. Such a network still has
the shapes, the token frequencies and any fixed position signal: its heads show the effect of these
alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.collect import Progress, collect
from headbook.heads.measure import HeadMeasure
from headbook.models.capture import Capturable
from headbook.text.batches import Batch
from headbook.types import UserError

NULLS = 9
"""Null networks per model, permuted and drawn in turn."""


class Null(StrEnum):
    """Construction of a null network's weights from those of the model."""

    PERMUTED = "permuted"
    """Every matrix keeps its values, in random order."""
    DRAWN = "drawn"
    """Every matrix is drawn from the normal distribution with its own mean and spread."""


@dataclass(frozen=True)
class NullValues:
    """Scores of null networks: for each measure, all heads of every null network."""

    values: Mapping[str, Float[Tensor, "null layer head ..."]]

    def best(self, measure: str) -> Float[Tensor, "null ..."]:
        """The largest value over the heads of each null network; NaN where nothing counted."""
        values = self.values[measure].flatten(1, 2)
        largest = values.nan_to_num(nan=-torch.inf).amax(1)
        return largest.masked_fill(values.isnan().all(1), torch.nan)

    def largest(self, measure: str) -> Float[Tensor, "*rest"]:
        """The largest value over the heads of all null networks."""
        return self.best(measure).amax(0)


@contextmanager
def without_knowledge(network: Capturable | nn.Module, null: Null, seed: int) -> Iterator[None]:
    """The network as a null model for as long as the block lasts; then its own weights again.

    Parameters of two dimensions or more are replaced, each from a generator of its own, embeddings
    and learnt positions included; tied ones stay tied. Vectors (biases, scales of norms) and
    buffers (sinusoids) are left as they are, so activations keep about their size.
    """
    own = [parameter.data for parameter in network.parameters()]
    try:
        for number, parameter in enumerate(network.parameters()):
            if parameter.ndim > 1:
                generator = torch.Generator().manual_seed(seed * 10_007 + number)
                parameter.data = _replaced(parameter.data, null, generator)
        yield
    finally:
        # The model's own tensors were set aside, not written to: nothing is rounded.
        for parameter, values in zip(network.parameters(), own, strict=True):
            parameter.data = values


def null_values(
    network: Capturable,
    batches: Iterable[Batch],
    measures: Callable[[], Mapping[str, HeadMeasure]],
    count: int = NULLS,
    seed: int = 0,
    progress: Progress = iter,
) -> NullValues:
    """Measures `count` null networks on the batches; null i is permuted where i is even.

    `measures` makes new ones for each null network, of values [layer, head, *rest]; they need no
    replicates. Raises UserError where `count` is below 1.
    """
    if count < 1:
        raise UserError(f"nulls: {count} null networks; use at least 1")
    batches = list(batches)
    found = []
    for number in range(count):
        made = measures()
        null = list(Null)[number % len(Null)]
        with without_knowledge(network, null, seed * 1_000_003 + number):
            collect(network, batches, list(made.values()), progress)
        found.append({name: measure.compute() for name, measure in made.items()})
    return NullValues({name: torch.stack([each[name] for each in found]) for name in found[0]})


def _replaced(values: Tensor, null: Null, generator: torch.Generator) -> Tensor:
    if null is Null.PERMUTED:
        order = torch.randperm(values.numel(), generator=generator).to(values.device)
        return values.flatten()[order].reshape(values.shape)
    drawn = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    drawn = values.double().mean() + values.double().std(correction=0) * drawn.to(values.device)
    return drawn.to(values.dtype)
