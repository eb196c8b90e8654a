"""Tiny transformers with ragged batches for them, and one attention with texts of several lengths;
in double precision, so that what is left of a difference is the order of summation."""

from collections.abc import Sequence

import torch

from headbook.models.attention import Attention, AttentionPath
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.released import firefox
from headbook.text.batches import EOS, UNK, Batch, collate, in_order

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
WIDTH, HEADS = 12, 3


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator)


def tiny(seed: int = 0, dtype: torch.dtype = torch.float64, **options: object) -> Transformer:
    """A tiny transformer; every parameter is random, also biases and layer norms."""
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**(TINY | options))).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def ragged(
    source: Sequence[int],
    target: Sequence[int],
    seed: int = 0,
    extra: int = 0,
    vocabulary: int = VOCABULARY,
) -> Batch:
    """A batch of random sentences of these source and target lengths, EOS counted, padded by
    `extra` columns more than needed."""
    generator = torch.Generator().manual_seed(seed)

    def sentence(length: int) -> list[int]:
        words = torch.randint(UNK, vocabulary, (length - 1,), generator=generator)
        return [*words.tolist(), EOS]

    pairs = [(sentence(one), sentence(other)) for one, other in zip(source, target, strict=True)]
    return wider(collate(pairs, range(len(pairs))), extra)


def wider(batch: Batch, extra: int) -> Batch:
    """The same sentences with so many more columns of padding."""
    sides = ("source", "target_in", "target_out")
    padded = {name: torch.nn.functional.pad(getattr(batch, name), (0, extra)) for name in sides}
    return Batch(**padded, sentences=batch.sentences)


def alone(batch: Batch, row: int) -> Batch:
    """One sentence of a batch, without padding."""
    source, target = batch.source_mask[row].sum(), batch.target_mask[row].sum()
    one = {name: each if each is None or each.ndim == 1
           else each[:, : source if name.startswith("source") else target]
           for name, each in vars(batch.select(torch.tensor([row]))).items()}  # fmt: skip
    return Batch(**one)


def for_student(lengths: Sequence[tuple[int, int]], vocabulary: int) -> Batch:
    """One batch of random pairs of these source and target lengths for a Firefox student."""
    drawn = torch.Generator().manual_seed(0)
    sides = [
        [[*torch.randint(2, vocabulary, (n - 1,), generator=drawn).tolist(), firefox.EOS]
         for n in side] for side in zip(*lengths, strict=True)
    ]  # fmt: skip
    (batch,) = in_order([*zip(*sides, strict=True)], 10_000, firefox.batch_of)
    return batch


def attention(path: AttentionPath = AttentionPath.EXPLICIT, dropout: float = 0.0) -> Attention:
    torch.manual_seed(0)
    return Attention(WIDTH, HEADS, dropout, path).double().eval()


def rows_of(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """States of three rows, of which two are shorter, and the mask of the padding."""
    sizes = torch.tensor([length, max(1, length // 2), 1])
    return drawn(3, length, WIDTH), (torch.arange(length) < sizes[:, None])[:, None, None]


def in_heads(block: Attention, states: torch.Tensor) -> list[torch.Tensor]:
    """Queries, keys and values [row, head, token, dim]."""
    parts = (each(states) for each in (block.query, block.key, block.value))
    return [each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in parts]


def joined(contexts: torch.Tensor) -> torch.Tensor:
    return contexts.transpose(1, 2).flatten(2)
