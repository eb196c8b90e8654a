"""Small vision transformers trained on scikit-learn's digits, and how far their heads look."""

from collections.abc import Iterator

import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.models.capture import Point, capture
from headbook.models.pixels import PixelEncoder, attention_distance
from headbook.types import Kind

EPOCHS, IMAGES, RATE = 15, 64, 2e-3
HELD_OUT = 297
"""Images of the 1,797 that no model is trained on."""
UNTRAINED, TRAINED = "untrained", "trained"


def distances(seeds: int) -> pd.DataFrame:
    """One row per seed, state of training, layer and head: distance in pixels, and accuracy."""
    return pd.DataFrame([row for seed in range(seeds) for row in _rows(seed)])


def digits() -> tuple[Tensor, Tensor]:
    """All images as pixels from 0 to 1, in a fixed random order, and the digits."""
    found = load_digits()
    order = torch.randperm(len(found.target), generator=torch.Generator().manual_seed(0))
    images = torch.from_numpy(found.data).float()[order] / 16
    return images, torch.from_numpy(found.target)[order]


def _rows(seed: int) -> Iterator[dict[str, object]]:
    images, labels = digits()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = PixelEncoder()
        yield from _measured(model, images, labels, seed, UNTRAINED)
        train(model, images[HELD_OUT:], labels[HELD_OUT:], EPOCHS)
        yield from _measured(model, images, labels, seed, TRAINED)


def train(model: PixelEncoder, images: Tensor, labels: Tensor, epochs: int) -> None:
    """Adam with a rate that falls to 0; draws batches from torch's own generator."""
    steps = epochs * (len(images) // IMAGES)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps)
    for _ in tqdm(range(epochs), desc="digits", unit="epoch", delay=2, leave=False):
        for batch in torch.randperm(len(images))[: steps // epochs * IMAGES].view(-1, IMAGES):
            optimiser.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()
            optimiser.step()
            schedule.step()


def _measured(
    model: PixelEncoder, images: Tensor, labels: Tensor, seed: int, state: str
) -> Iterator[dict[str, object]]:
    with torch.no_grad(), capture(model, {Point.WEIGHTS}) as tape:
        right = model(images[:HELD_OUT]).argmax(1) == labels[:HELD_OUT]
    for layer, weights in enumerate(tape[Kind.ENCODER, Point.WEIGHTS]):
        for head, pixels in enumerate(attention_distance(weights).tolist()):
            yield {"seed": seed, "state": state, "layer": layer + 1, "head": head + 1,
                   "pixels": pixels, "accuracy": float(right.float().mean())}  # fmt: skip
