"""The X-raying article's metrics as its notebook takes them: during training, of a whole batch.

Dropout is on, weights are those behind it, and padding counts as text: every number that the other
modules keep out of a measurement.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import torch

from headbook.heads.four_metrics import RAW, Found, four_metrics
from headbook.models.attention import Attention
from headbook.models.capture import Point
from headbook.models.dropout import Dropout
from headbook.models.edits import edited
from headbook.models.transformer import Transformer
from headbook.text.batches import Batch
from headbook.types import Kind

PIECE = 8
"""Segments that pass through the model together, so that their maps fit into memory."""


def diversity_in_training(model: Transformer, kind: Kind, batch: Batch) -> Found:
    """The four metrics of a batch of targets, raw, with masks of dropout of their own.

    The state of the random numbers is afterwards what it was before.
    """
    everything = torch.ones_like(batch.target_out, dtype=torch.bool)
    whole = replace(batch, target_real=everything)
    pieces = [whole.select(slice(at, at + PIECE)) for at in range(0, len(batch), PIECE)]
    device = next(model.parameters()).device
    with torch.random.fork_rng([device] if device.type == "cuda" else []), dropped_first(model):
        return four_metrics(model, kind, pieces, forms={RAW}, training=True)


@contextmanager
def dropped_first(model: Transformer) -> Iterator[None]:
    """Attention drops weights before it records them, so that the record has what was used."""
    with ExitStack() as stack:
        edits = {}
        for kind, layer, block in model.attentions():
            if isinstance(block, Attention):
                edits[kind, layer] = {Point.WEIGHTS: Dropout(block.dropout.rate)}
                stack.callback(setattr, block.dropout, "rate", block.dropout.rate)
                block.dropout.rate = 0.0
        with edited(model, edits):
            yield
