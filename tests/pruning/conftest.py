"""A tiny transformer, sentences to copy, and a trainer for both."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, EncodedPair
from headbook.training.config import Precision, TrainingConfig
from headbook.training.loop import Trainer

VOCABULARY = 12


@pytest.fixture
def tiny() -> Callable[..., Transformer]:
    """Builds a transformer of two layers and four heads with random biases, in eval mode."""

    def build(seed: int = 0, **options: object) -> Transformer:
        torch.manual_seed(seed)
        shape = {"encoder_layers": 2, "decoder_layers": 2, "width": 16, "feed_forward": 24,
                 "heads": 4, "dropout": 0.0}  # fmt: skip
        model = Transformer(TransformerConfig(VOCABULARY, VOCABULARY, **(shape | options)))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
        return model.eval()

    return build


@pytest.fixture
def copies() -> list[EncodedPair]:
    """Forty sentences of three pieces to be repeated."""
    drawn = torch.randint(3, VOCABULARY, (40, 3), generator=torch.Generator().manual_seed(1))
    return [([*row, EOS], [*row, EOS]) for row in drawn.tolist()]


@pytest.fixture
def training(tmp_path: Path, copies: list[EncodedPair]) -> Callable[..., Trainer]:
    """Builds a trainer of the copies."""

    def build(
        model: Transformer, updates: int = 4, name: str = "training", **more: object
    ) -> Trainer:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        config = TrainingConfig(
            updates, tokens=64, scale=1.0, warmup=10, precision=Precision.FULL, validate_every=50
        )
        return Trainer(model, config, copies, copies[:8], folder, **more)

    return build
