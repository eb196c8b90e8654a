"""Small vision transformers trained on digits, and how far their heads look (page 55).

The published table, three seeds untrained and after 15 epochs, took a minute or two.
"""

from collections.abc import Iterator
from functools import partial

import pandas as pd
import torch
from jaxtyping import Float
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headbook.experiments.learning import descent
from headbook.models.attention import Attention
from headbook.models.capture import Point, capture
from headbook.models.transformer import EncoderLayer, TransformerConfig, glorot
from headbook.types import Kind

SIDE, IMAGES, RATE = 8, 64, 2e-3
"""Pixels of a side; images of a batch; the largest learning rate."""
HELD_OUT = 297
"""Images of the 1,797 that no model is trained on."""


class PixelEncoder(nn.Module):
    """Dosovitskiy et al. 2021 in small: pixels, row by row, with learnt positions, pre-norm layers,
    a class from the mean of the last states."""

    def __init__(self) -> None:
        super().__init__()
        config = TransformerConfig(1, 1, 3, 0, 32, 64, 4, dropout=0.0)
        self.pixel = nn.Linear(1, 32)
        self.positions = nn.Parameter(0.5 * torch.randn(SIDE * SIDE, 32))
        self.encoder = nn.ModuleList(EncoderLayer(config, layer) for layer in range(3))
        self.norm, self.classes = nn.LayerNorm(32), nn.Linear(32, 10)
        self.apply(glorot)

    def attentions(self) -> Iterator[tuple[Kind, int, Attention]]:
        for layer, block in enumerate(self.encoder):
            yield Kind.ENCODER, layer, block.attention

    def forward(self, images: Float[Tensor, "image pixel"]) -> Float[Tensor, "image class"]:
        states = self.pixel(images[..., None]) + self.positions
        for layer in self.encoder:
            states = layer(states, None)
        return self.classes(self.norm(states).mean(1))


def distance(weights: Float[Tensor, "image head query key"]) -> Float[Tensor, " head"]:
    """Mean distance in pixels between a query and what it looks at, Σ_j α_ij ‖p_i − p_j‖, over
    queries and images (Dosovitskiy et al. 2021, appendix D.7)."""
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).float()
    return (weights * torch.cdist(places, places)).sum(-1).mean((0, 2))


def train(model: PixelEncoder, images: Tensor, labels: Tensor, epochs: int) -> None:
    """Adam with a rate that rises and falls to 0; draws batches from torch's own generator."""
    steps = epochs * (len(images) // IMAGES)
    rate = partial(torch.optim.lr_scheduler.OneCycleLR, max_lr=RATE, total_steps=steps)
    descend = descent(model.parameters(), rate, lr=RATE, fused=False)
    for _ in range(epochs):
        for batch in torch.randperm(len(images))[: steps // epochs * IMAGES].view(-1, IMAGES):
            descend(cross_entropy(model(images[batch]), labels[batch]))


def distances(seed: int, epochs: int) -> pd.DataFrame:
    """One row per layer and head after so many epochs: distance on held-out images in pixels, and
    the share of them that the model reads correctly."""
    found = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    images = torch.from_numpy(found.data).float()[order] / 16
    labels = torch.from_numpy(found.target)[order]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = PixelEncoder()
        if epochs:
            train(model, images[HELD_OUT:], labels[HELD_OUT:], epochs)
    with torch.no_grad(), capture(model, {Point.WEIGHTS}) as tape:
        right = model(images[:HELD_OUT]).argmax(1) == labels[:HELD_OUT]
    rows = [(layer, head, pixels)
            for layer, weights in enumerate(tape[Kind.ENCODER, Point.WEIGHTS], start=1)
            for head, pixels in enumerate(distance(weights).tolist(), start=1)]  # fmt: skip
    found = pd.DataFrame(rows, columns=["layer", "head", "pixels"])
    return found.assign(seed=seed, epochs=epochs, accuracy=float(right.float().mean()))
