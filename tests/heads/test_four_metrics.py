"""The article's four metrics: its formulas, what scale does to either form, and its notebook's way.

The notebook measures in training, of a whole batch: padding and dropout are in its numbers.
"""

import pytest
import torch
from blocks import tiny
from torch.nn.functional import cosine_similarity

from headbook.heads.diversity_in_training import diversity_in_training
from headbook.heads.four_metrics import (
    ATTENTION,
    DISSIMILARITY,
    FREE,
    NON_ORTHOGONALITY,
    ORTHOGONALITY,
    RAW,
    four_metrics,
)
from headbook.heads.outputs import output_parts
from headbook.models.capture import Point, capture
from headbook.models.published import PublishedTransformer
from headbook.models.transformer import HeadCounts, Transformer
from headbook.text.batches import Batch, collate
from headbook.types import Kind

HEADS, SEGMENTS = 4, 11
"""More segments than pass through the model together in training."""


def decoder(counts: HeadCounts | None = None) -> Transformer:
    shape = {"encoder_layers": 0, "dropout": 0.3, "head_counts": counts}
    return tiny(dtype=torch.float32, **shape).eval()


def published(dropout: float) -> PublishedTransformer:
    torch.manual_seed(0)
    return PublishedTransformer(13, 2, 16, 24, HEADS, dropout).train()


def segments(length: int, padded: int = 0, rows: slice = slice(SEGMENTS)) -> Batch:
    """Segments of one length of which all but the first end in padding."""
    ids = torch.randint(3, 13, (SEGMENTS, length), generator=torch.Generator().manual_seed(1))
    if padded:
        ids[1:, -padded:] = 0
    return collate([((), row) for row in ids.tolist()][rows], range(SEGMENTS)[rows])


def by_hand(model: Transformer, batch: Batch) -> dict[tuple[str, str], list[torch.Tensor]]:
    """The formulas, head by head, over every place of the batch."""
    with torch.no_grad(), capture(model, frozenset(Point)) as tape:
        model(batch)
    found: dict[tuple[str, str], list[torch.Tensor]] = {}
    for layer, parts in enumerate(output_parts(model, Kind.DECODER)):
        queries, contexts, weights, output = (
            tape[Kind.DECODER, point][layer].double()
            for point in (Point.QUERIES, Point.CONTEXT, Point.WEIGHTS, Point.OUTPUT)
        )
        pairs = 1 - torch.eye(len(parts), dtype=torch.float64)
        true = [contexts[:, head] @ part for head, part in enumerate(parts.double())]
        for form, each in ((RAW, output.chunk(len(parts), dim=-1)), (FREE, true)):
            rows = torch.stack(list(each))
            alike = cosine_similarity(rows[:, None], rows, dim=-1).mean((-2, -1))
            found.setdefault((DISSIMILARITY, form), []).append(-pairs * alike)
        for name, vectors in ((ORTHOGONALITY, queries), (NON_ORTHOGONALITY, contexts)):
            rows = vectors.transpose(0, 1).flatten(1, 2)
            products = rows.mT[:, None] @ rows
            size = products.norm(dim=(-2, -1))
            raw = products.abs().sum((-2, -1)) if name == ORTHOGONALITY else size
            free = size / (size.diagonal()[:, None] * size.diagonal()).sqrt()
            for form, values in ((RAW, pairs * raw), (FREE, free)):
                found.setdefault((name, form), []).append(values)
        spread, most = weights.var(dim=2, correction=0), 1 - weights.mean(2).square().sum(-1)
        found.setdefault((ATTENTION, RAW), []).append(spread.mean(-1).mean(0))
        found.setdefault((ATTENTION, FREE), []).append((spread.sum(-1) / most).mean(0))
    return found


@pytest.mark.parametrize("counts", [None, HeadCounts((), (2, 4), ())], ids=["all", "pruned"])
def test_they_are_those_of_the_formulas_whatever_the_batches(counts: HeadCounts | None):
    """Layers may differ in the number of their heads: NaN stands for those that one lacks."""
    model, whole = decoder(counts), segments(12)
    found = four_metrics(model, Kind.DECODER, [whole])
    for name, layers in by_hand(model, whole).items():
        for stacked, own in zip(found[name].double(), layers, strict=True):
            there = stacked[tuple(map(slice, own.shape))]
            assert torch.allclose(there, own, rtol=1e-4), name
            assert stacked.isnan().sum() == stacked.numel() - own.numel()
    several = [segments(12, rows=slice(4)), segments(12, rows=slice(4, SEGMENTS))]
    parts = four_metrics(model.train(), Kind.DECODER, several)
    assert model.training
    assert all(torch.allclose(found[x], parts[x], rtol=1e-5, equal_nan=True) for x in found)


def test_in_training_padding_counts():
    own, text = published(0.0), segments(9, padded=3)
    found = diversity_in_training(own, Kind.DECODER, text)
    for name, layers in by_hand(own, text).items():
        if name[1] == RAW:
            assert torch.allclose(found[name].double(), torch.stack(layers), rtol=1e-4), name
    without = four_metrics(own, Kind.DECODER, [text])
    assert not any(torch.allclose(found[x], without[x], rtol=1e-2) for x in found)


def test_in_training_weights_are_those_behind_dropout_and_nothing_else_notices():
    own, text = published(0.5), segments(33)
    state = torch.get_rng_state()
    first, again = (diversity_in_training(own, Kind.DECODER, text) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state) and own.training
    assert all(torch.equal(first[each], again[each]) for each in first)
    before = four_metrics(own, Kind.DECODER, [text], training=True)[ATTENTION, RAW]
    assert (first[ATTENTION, RAW] > 1.5 * before).all()
