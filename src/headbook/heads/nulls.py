"""Null models: the same architecture on the same text, with permuted or redrawn weights.

A head is selected as the best of as many as the model has, so its value is compared with the best
of as many heads of a network whose matrices were permuted or drawn anew. Such a network still has
the shapes, the token frequencies and any fixed position signal: its heads show the effect of these
alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import torch
from torch import Tensor, nn

from headbook.models.capture import Capturable

NULLS = 9
"""Null networks per model, permuted and drawn in turn."""


class Null(StrEnum):
    """Construction of a null network's weights from those of the model."""

    PERMUTED = "permuted"
    """Every matrix keeps its values, in random order."""
    DRAWN = "drawn"
    """Every matrix is drawn from the normal distribution with its own mean and spread."""


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
            parameter.data = _replaced(parameter.data, null, seed, number)
        yield
    finally:
        # The model's own tensors were set aside, not written to: nothing is rounded.
        for parameter, values in zip(network.parameters(), own, strict=True):
            parameter.data = values


def _replaced(values: Tensor, null: Null, seed: int, number: int) -> Tensor:
    if values.ndim < 2:
        return values
    generator = torch.Generator().manual_seed(seed * 10_007 + number)
    if null is Null.PERMUTED:
        order = torch.randperm(values.numel(), generator=generator, dtype=torch.int32)
        return values.flatten().index_select(0, order.to(values.device)).reshape(values.shape)
    drawn = torch.randn(values.shape, generator=generator, dtype=torch.float64)
    drawn = values.double().mean() + values.double().std(correction=0) * drawn.to(values.device)
    return drawn.to(values.dtype)
