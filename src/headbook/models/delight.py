"""DeLighT's decoder (Mehta et al. 2021): a deep, light transformation before one narrow head.

A block's transformation widens and narrows again in layers that are linear within groups of
features; attention has one head of half the model's width, and the feed-forward layer narrows to a
quarter instead of widening. Later blocks transform deeper and wider.
"""

import math
from dataclasses import replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headbook.models.attention import Attention, KeyValues, Mask, MemoryMask
from headbook.models.dropout import Dropout
from headbook.models.transformer import (
    FeedForward,
    Residual,
    Transformer,
    TransformerConfig,
    glorot,
)

NARROWER, REDUCTION, GROUPS = 2, 4, 8
"""The model's width over that of its one head, and over that inside the feed-forward layer; most
groups of a layer."""


def block_shape(block: int, blocks: int) -> tuple[int, float]:
    """Layers of a block's transformation, counted from 0, and its widest over its input.

    Layers go from 4 to 8; the widest grows as they do: 2 + (layers / 4 - 1), section 3.2.
    """
    grown = 4 * block / max(blocks - 1, 1)
    return round(4 + grown), 2.0 + grown / 4


class GroupLinear(nn.Module):
    """A linear layer within each group of features, then norm, GELU, dropout, and a shuffle.

    The shuffle deals the features of every group out to all groups of the next layer.
    """

    def __init__(self, inputs: int, outputs: int, groups: int, dropout: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(groups, inputs // groups, outputs // groups))
        self.bias = nn.Parameter(torch.zeros(groups, outputs // groups))
        self.norm = nn.LayerNorm(outputs // groups)
        self.dropout = Dropout(dropout)
        for matrix in self.weight:
            nn.init.xavier_uniform_(matrix)

    def forward(self, inputs: Float[Tensor, "*token inputs"]) -> Float[Tensor, "*token outputs"]:
        groups = rearrange(inputs, "... (group dim) -> ... group dim", group=len(self.weight))
        mapped = torch.einsum("...gi,gio->...go", groups, self.weight) + self.bias
        activated = self.dropout(functional.gelu(self.norm(mapped)))
        return rearrange(activated, "... group dim -> ... (dim group)")


class ExpandReduce(nn.Module):
    """From the model's width to half of it, by way of `multiplier` times it (DExTra, section 3.1).

    Groups double up to the middle and halve again. Each layer sees the input beside what the one
    before it gives, group by group.
    """

    def __init__(self, width: int, layers: int, multiplier: float, dropout: float) -> None:
        super().__init__()
        self.narrow = width // NARROWER
        self.enter = _activated(width, self.narrow, dropout)
        groups, outputs = group_counts(layers), _widths(width, layers, multiplier)
        inputs = [self.narrow, *(each + self.narrow for each in outputs[:-1])]
        self.groups = groups
        self.layers = nn.ModuleList(
            GroupLinear(*sizes, dropout) for sizes in zip(inputs, outputs, groups, strict=True)
        )
        self.leave = _activated(outputs[-1] + self.narrow, self.narrow, dropout)

    def forward(self, states: Float[Tensor, "*token model"]) -> Float[Tensor, "*token narrow"]:
        entered = self.enter(states)
        mixed = self.layers[0](entered)
        for layer, groups in zip(self.layers[1:], self.groups[1:], strict=True):
            mixed = layer(_beside(entered, mixed, groups))
        return self.leave(_beside(entered, mixed, 1))


def group_counts(layers: int) -> list[int]:
    """2, 4 … up to the middle layer, at most `GROUPS`, and back."""
    rising = [min(2 ** (layer + 1), GROUPS) for layer in range(math.ceil(layers / 2))]
    return rising + rising[::-1][layers % 2 :]


def _widths(width: int, layers: int, multiplier: float) -> list[int]:
    """Output width of each layer: in even steps from half of the width to the widest, and back."""
    narrow, half = width // NARROWER, math.ceil(layers / 2)
    widest = width * multiplier
    rising = [narrow + (widest - narrow) * step / max(half - 1, 1) for step in range(half)]
    there_and_back = (rising + rising[::-1][layers % 2 :])[:-1]
    # in groups of both layers a width has to divide
    return [*(math.ceil(each / GROUPS) * GROUPS for each in there_and_back), narrow]


def _beside(entered: Tensor, mixed: Tensor, groups: int) -> Tensor:
    """Input and last layer side by side in every group."""
    parts = [rearrange(each, "... (group dim) -> ... group dim", group=groups)
             for each in (entered, mixed)]  # fmt: skip
    return rearrange(torch.cat(parts, dim=-1), "... group dim -> ... (group dim)")


def _activated(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, outputs), nn.LayerNorm(outputs), nn.GELU(), Dropout(dropout)
    )


class DelightLayer(nn.Module):
    """Transformation and single-head attention in one residual, then narrow feed-forward."""

    def __init__(self, config: TransformerConfig, layers: int, multiplier: float) -> None:
        super().__init__()
        narrow = config.width // NARROWER
        self.transformation = ExpandReduce(config.width, layers, multiplier, config.dropout)
        self.attention = Attention(narrow, 1, config.dropout, config.path)
        self.attention.output = nn.Linear(narrow, config.width)
        self.around_attention = Residual(config)
        lighter = replace(config, feed_forward=config.width // REDUCTION)
        self.feed_forward, self.around_feed_forward = FeedForward(lighter), Residual(config)

    def forward(
        self,
        states: Tensor,
        mask: Mask | None,
        memory: Tensor | None = None,
        memory_mask: MemoryMask | None = None,
        own: KeyValues | None = None,
        cross: KeyValues | None = None,
    ) -> Tensor:
        """As `DecoderLayer`, without an encoder to look at: memory is None."""
        light = self.transformation(self.around_attention.before(states))
        states = self.around_attention.after(states, self.attention(light, light, mask, own))
        normed = self.around_feed_forward.before(states)
        return self.around_feed_forward.after(states, self.feed_forward(normed))


class DelightTransformer(Transformer):
    """A decoder-only model of DeLighT blocks, of one head.

    Its width is a multiple of 32, or groups do not divide it, or norm single features.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        blocks = config.decoder_layers
        self.decoder = nn.ModuleList(
            DelightLayer(config, *block_shape(block, blocks)) for block in range(blocks)
        )
        self.decoder.apply(glorot)
