"""Our transformer with compiled layers, and the batches of few lengths that it wants."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from headbook.corpora.batches import PAD, Batch
from headbook.models.dropout import Dropout
from headbook.models.transformer import Transformer, TransformerConfig

GRAIN = 8
"""Lengths are padded up to a multiple of it. Code is made for each length, and torch gives up after
eight codes for one layer; sentences of 5 to 32 tokens need four."""


class FusibleDropout(Dropout):
    """Torch's own dropout: on a CPU ours draws words of random bits, which no compiler follows."""

    def forward(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return functional.dropout(values, self.rate, self.training)


class CompiledLayer(nn.Module):
    """A layer compiled for any number of sentences and for each of their lengths.

    Layers are compiled and not the model: they share their code, so six take no longer than one.
    """

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer
        # A layer that is not one graph is an error here, not a layer that is partly compiled.
        self.compiled = torch.compile(layer.forward, fullgraph=True)

    def forward(self, states: Tensor, *others: object) -> Tensor:
        for given in (states, *others):
            if isinstance(given, Tensor):
                _say_what_varies(given, len(states))
        return self.compiled(states, *others)


def _say_what_varies(given: Tensor, sentences: int) -> None:
    """Torch would else take lengths for variable as well once it has seen two of them."""
    torch._dynamo.mark_static(given, list(range(1, given.ndim)))
    if len(given) == sentences > 1:
        torch._dynamo.maybe_mark_dynamic(given, 0)


def compiled(config: TransformerConfig) -> Transformer:
    """A fresh model of ours whose layers are compiled when they are first called."""
    torch.compiler.reset()  # codes of another width count as well
    model = Transformer(config)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Dropout):
                setattr(module, name, FusibleDropout(child.rate))
    model.encoder = nn.ModuleList(CompiledLayer(layer) for layer in model.encoder)
    model.decoder = nn.ModuleList(CompiledLayer(layer) for layer in model.decoder)
    return model


def padded(batch: Batch) -> Batch:
    """The same sentences, both sides padded to one length that is a multiple of GRAIN."""
    longest = max(batch.source.shape[1], batch.target_out.shape[1])
    length = -(-longest // GRAIN) * GRAIN

    def widened(ids: Int[Tensor, "batch token"]) -> Int[Tensor, "batch length"]:
        return functional.pad(ids, (0, length - ids.shape[1]), value=PAD)

    names = ("source", "target_in", "target_out")
    return replace(batch, **{name: widened(getattr(batch, name)) for name in names})


def one_of_each(batches: Sequence[Batch]) -> list[Batch]:
    """Batches to be trained on once, so that nothing is compiled while it is timed.

    Without padding the encoder's layers have no mask, which is another code.
    """
    codes = {(each.source.shape[1], bool(each.source_mask.all())): each for each in batches}
    return list(codes.values())
