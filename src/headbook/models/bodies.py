"""The layers of a transformer between new ends: vectors in, states out, whoever wrote the layers.

Lu et al. 2021, section 2.1, freeze them. A network's own embeddings, and its layers above those
that are asked for, are left out.
"""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headbook.models.transformer import Transformer
from headbook.types import UserError


@runtime_checkable
class Body(Protocol):
    """A module whose `positions` are learnt: as many as a sequence may have, as wide as states."""

    positions: nn.Parameter

    def __call__(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        """States after the layers; vectors that are not real are read by no other."""


def body_of(network: nn.Module, layers: int) -> Body:
    """The lowest layers of an encoder, of ours or of `transformers`; the network is changed.

    UserError for more layers than it has, fewer than one, and one without learnt positions.
    """
    kind = EncoderBody if isinstance(network, Transformer) else BertBody
    return kind(network, layers)


class BertBody(nn.Module):
    """Of a BERT-like encoder of `transformers`; its embeddings' norm and token type stay."""

    def __init__(self, network: nn.Module, layers: int) -> None:
        super().__init__()
        network.encoder.layer = _lowest(network.encoder.layer, layers)
        if getattr(network.embeddings, "position_embeddings", None) is None:
            raise UserError("the body has no learnt positions to train; choose one that has")
        network.embeddings.word_embeddings = nn.Identity()
        network.pooler = None
        self.bert = network

    @property
    def positions(self) -> nn.Parameter:
        return self.bert.embeddings.position_embeddings.weight

    def forward(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        return self.bert(inputs_embeds=vectors, attention_mask=real.long()).last_hidden_state


class EncoderBody(nn.Module):
    """Of our transformer's encoder, with its last norm; positions are learnt from sinusoids on.

    As its own embeddings, vectors are multiplied by √width, and a bias is added.
    """

    def __init__(self, network: Transformer, layers: int) -> None:
        super().__init__()
        self.layers, self.norm = _lowest(network.encoder, layers), network.encoder_norm
        self.bias = network.source.bias
        self.positions = nn.Parameter(network.source.positions.clone())

    def forward(
        self, vectors: Float[Tensor, "row time width"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row time width"]:
        time, width = vectors.shape[1:]
        states = vectors * width**0.5 + self.bias + self.positions[:time]
        for layer in self.layers:
            states = layer(states, real[:, None, None, :])
        return self.norm(states)


def _lowest(layers: nn.ModuleList, count: int) -> nn.ModuleList:
    if not 1 <= count <= len(layers):
        raise UserError(f"{count} layers of a body that has {len(layers)}; give 1 to {len(layers)}")
    return layers[:count]
