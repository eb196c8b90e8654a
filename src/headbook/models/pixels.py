"""A small vision transformer: every pixel of a digit is a patch of its own."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.attention import Attention
from headbook.models.transformer import EncoderLayer, TransformerConfig, glorot
from headbook.types import Kind

SIDE = 8


class PixelEncoder(nn.Module):
    """Dosovitskiy et al. 2021 in small: pixels with learnt positions, pre-norm layers, a class from
    the mean of the last states.

    Pixels are numbers from 0 to 1, row by row. Its attention can be captured like a translation
    model's.
    """

    def __init__(self, layers: int = 3, heads: int = 4, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        config = TransformerConfig(1, 1, layers, 0, width, 2 * width, heads, dropout=0.0)
        self.pixel = nn.Linear(1, width)
        self.positions = nn.Parameter(0.5 * torch.randn(SIDE * SIDE, width))
        self.encoder = nn.ModuleList(EncoderLayer(config, layer) for layer in range(layers))
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, classes)
        self.apply(glorot)

    def attentions(self) -> Iterator[tuple[Kind, int, Attention]]:
        for layer, block in enumerate(self.encoder):
            yield Kind.ENCODER, layer, block.attention

    def forward(self, images: Float[Tensor, "image pixel"]) -> Float[Tensor, "image class"]:
        states = self.pixel(images[..., None]) + self.positions
        for layer in self.encoder:
            states = layer(states, None)
        return self.classes(self.norm(states).mean(1))


def attention_distance(
    weights: Float[Tensor, "image head query key"],
) -> Float[Tensor, " head"]:
    """Mean distance in pixels between a query and what it looks at, Σ_j α_ij ‖p_i − p_j‖, over
    queries and images (Dosovitskiy et al. 2021, appendix D.7)."""
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).float()
    return (weights * torch.cdist(places, places)).sum(-1).mean((0, 2))
