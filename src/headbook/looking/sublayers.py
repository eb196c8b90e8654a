"""An encoder taken apart into sublayers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.models.loaded import Loaded
from headbook.models.transformer import NormPlacement, Transformer
from headbook.text.batches import Batch
from headbook.types import UserError

States = Float[Tensor, "batch token model"]
Sublayer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Layer:
    """One encoder layer: two sublayers and their norms, which come before them or after the sum."""

    attention: Sublayer
    attention_norm: Sublayer
    feed_forward: Sublayer
    feed_forward_norm: Sublayer
    pre_norm: bool = False

    def __call__(self, states: States) -> States:
        """The states behind the layer, each sublayer with a skip around it."""
        norms = self.attention_norm, self.feed_forward_norm
        for part, norm in zip((self.attention, self.feed_forward), norms, strict=True):
            states = states + part(norm(states)) if self.pre_norm else norm(states + part(states))
        return states


@dataclass(frozen=True)
class Encoder:
    """The embeddings of sentences of one length, and the layers above them."""

    embed: Callable[[Batch], States]
    layers: Sequence[Layer]

    def states(self, batch: Batch) -> list[States]:
        """Behind the embeddings and behind every layer; in evaluation mode, without gradients.

        UserError for a batch with padding.
        """
        if not bool(batch.source_mask.all()):
            raise UserError("sublayers are run on sentences of one length, without padding")
        with torch.no_grad():
            found = [self.embed(batch)]
            for layer in self.layers:
                found.append(layer(found[-1]))
        return found


def encoder(model: Loaded) -> Encoder:
    """The encoder of a model of ours, a Firefox student or a BERT; UserError for another kind."""
    if isinstance(model.network, Transformer):
        return of_ours(model.network)
    from headbook.released.network import HuggingNetwork  # takes seconds

    network = model.network
    if isinstance(network, HuggingNetwork) and hasattr(network.model.base_model, "encoder"):
        base = network.model.base_model.eval()
        layers = getattr(base.encoder, "layer", ())
        if layers and all(hasattr(each, "intermediate") for each in layers):
            return Encoder(lambda batch: base.embeddings(batch.source), list(map(_bert, layers)))
    raise UserError(
        f"{model.name}: its layers cannot be taken apart; name a Firefox student, a BERT, or a "
        "model trained here"
    )


def of_ours(network) -> Encoder:
    """The encoder of a `Transformer`, trained or not."""
    network = network.eval()
    pre = network.config.norm is NormPlacement.PRE
    layers = [
        Layer(_self(each.attention), each.around_attention.norm, each.feed_forward,
              each.around_feed_forward.norm, pre)
        for each in network.encoder
    ]  # fmt: skip
    return Encoder(lambda batch: network.source(batch.source), layers)


def _self(attention) -> Sublayer:
    return lambda states: attention(states, states)


def _bert(layer) -> Layer:
    def attention(states: Tensor) -> Tensor:
        return layer.attention.output.dense(layer.attention.self(states)[0])

    def feed_forward(states: Tensor) -> Tensor:
        return layer.output.dense(layer.intermediate(states))

    return Layer(attention, layer.attention.output.LayerNorm, feed_forward, layer.output.LayerNorm)
