"""Tiny transformers in double precision and ragged batches for them."""

from collections.abc import Callable, Sequence

import pytest
import torch

from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, UNK, Batch, collate

VOCABULARY = 13
TINY = {
    "source_vocabulary": VOCABULARY,
    "target_vocabulary": VOCABULARY,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "width": 16,
    "feed_forward": 24,
    "heads": 4,
    "dropout": 0.0,
}


@pytest.fixture
def tiny() -> Callable[..., Transformer]:
    """Builds a tiny transformer; every parameter is random, also biases and layer norms."""

    def build(seed: int = 0, **options: object) -> Transformer:
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(**(TINY | options))).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.2)
        return model

    return build


def _sentence(length: int, vocabulary: int, generator: torch.Generator) -> list[int]:
    words = torch.randint(UNK, vocabulary, (length - 1,), generator=generator)
    return [*words.tolist(), EOS]


@pytest.fixture
def ragged() -> Callable[..., Batch]:
    """Builds a batch of random sentences of the given source and target lengths, EOS counted.

    `extra` columns of padding are added to both sides.
    """

    def build(
        source: Sequence[int],
        target: Sequence[int],
        seed: int = 0,
        extra: int = 0,
        vocabulary: int = VOCABULARY,
    ) -> Batch:
        generator = torch.Generator().manual_seed(seed)
        pairs = [
            (_sentence(one, vocabulary, generator), _sentence(other, vocabulary, generator))
            for one, other in zip(source, target, strict=True)
        ]
        batch = collate(pairs, range(len(pairs)))
        sides = ("source", "target_in", "target_out")
        wider = {name: torch.nn.functional.pad(getattr(batch, name), (0, extra)) for name in sides}
        return Batch(**wider, sentences=batch.sentences)

    return build
