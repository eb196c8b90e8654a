"""Share of a lower head's output that a head reads, from weights alone.

Elhage et al. 2021: head a adds x W_V W_O =: x O to the states, and head b reads them by W_Q W_Kᵀ or
W_V W_O. A composition score is ‖O R‖ / (‖O‖ ‖R‖) in Frobenius norms, R being W_Q W_Kᵀ of b for
queries, its transpose for keys, and W_V W_O of b for values. Between two heads the states pass
norms: behind every sublayer where norms follow the sum, else the one in front of b. O goes through
their centring and gains; their division by a token's own scale leaves the score as it is. Biases,
and what feed-forward layers make of O, are left out.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.outputs import output_parts
from headbook.looking.sublayers import encoder
from headbook.looking.weights import encoder_weights
from headbook.models.loaded import Loaded
from headbook.types import Kind

Heads = Float[Tensor, "layer head model dim"]
"""Projections as they multiply a row of states from the right."""


class Way(StrEnum):
    """By what a head reads another."""

    QUERY = "queries"
    KEY = "keys"
    VALUE = "values"


@dataclass(frozen=True)
class EncoderWeights:
    """Projections of an encoder's heads, and gains of the norms of each layer.

    `outputs` are W_Oᵀ of each head, [layer head model dim] as the others; `gains` those of the norm
    of attention and of the feed-forward part.
    """

    queries: Heads
    keys: Heads
    values: Heads
    outputs: Heads
    gains: Float[Tensor, "layer norm=2 model"]
    pre_norm: bool

    def redrawn(self, seed: int) -> "EncoderWeights":
        """Projections drawn anew from a normal distribution; the norms stay."""
        noise = torch.Generator().manual_seed(seed)
        drawn = (torch.randn(each.shape, generator=noise, dtype=each.dtype) for each in
                 (self.queries, self.keys, self.values, self.outputs))  # fmt: skip
        return EncoderWeights(*drawn, self.gains, self.pre_norm)


def weights_of(model: Loaded) -> EncoderWeights:
    """In float64. UserError for a model whose projections or norms are out of reach."""
    network, layers = model.network, encoder(model).layers
    outputs = torch.stack(output_parts(network, Kind.ENCODER)).mT
    gains = torch.stack([
        torch.stack([layer.attention_norm.weight, layer.feed_forward_norm.weight])
        for layer in layers
    ])  # fmt: skip
    parts = (*encoder_weights(network), outputs, gains)
    return EncoderWeights(*(each.detach().double() for each in parts), layers[0].pre_norm)


def composition(
    weights: EncoderWeights,
) -> Float[Tensor, "way=3 layer head other_layer other_head"]:
    """The scores of every head with every head of a higher layer; NaN elsewhere."""
    written = _small(weights.values) @ weights.outputs.mT  # [layer head dim model]
    readers = (weights.queries @ _small(weights.keys).mT, weights.keys @ _small(weights.queries).mT,
               weights.values @ _small(weights.outputs).mT)  # fmt: skip
    layers, heads = weights.values.shape[:2]
    found = written.new_full((len(readers), layers, heads, layers, heads), torch.nan)
    for lower in range(layers):
        passed = written[lower]
        for upper in range(lower + 1, layers):
            if weights.pre_norm:
                passed = _normed(written[lower], weights.gains[upper, 0])
            else:
                for gain in weights.gains[upper - 1]:
                    passed = _normed(passed, gain)
            for way, reader in enumerate(readers):
                read = torch.einsum("hdm,gme->hgde", passed, reader[upper])
                found[way, lower, :, upper] = _norm(read) / (
                    _norm(passed)[:, None] * _norm(reader[upper])
                )
    return found


def over_redrawn(
    weights: EncoderWeights, draws: int = 3
) -> Float[Tensor, "way=3 layer head other_layer other_head"]:
    """`composition` over its mean with redrawn projections, one mean per way; 1 is chance."""
    random = torch.stack([composition(weights.redrawn(seed)) for seed in range(draws)])
    return composition(weights) / random.nanmean((0, 2, 3, 4, 5))[:, None, None, None, None]


def _small(tall: Heads) -> Float[Tensor, "layer head dim dim"]:
    """A factor that leaves the norm of a product as it is: R of tall = Q R."""
    return torch.linalg.qr(tall, mode="r").R


def _normed(rows: Float[Tensor, "*batch model"], gain: Tensor) -> Float[Tensor, "*batch model"]:
    return (rows - rows.mean(-1, keepdim=True)) * gain


def _norm(matrices: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrices)
