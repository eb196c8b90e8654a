"""The article's numbers as its notebook takes them: padding and dropout are in them."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from headbook.heads import diversity_in_training as notebook
from headbook.heads.diversity_in_training import diversity_in_training, dropped_first
from headbook.heads.four_metrics import (
    ATTENTION,
    DISSIMILARITY,
    NON_ORTHOGONALITY,
    ORTHOGONALITY,
    RAW,
    four_metrics,
)
from headbook.models.capture import Point, capture
from headbook.models.published import PublishedTransformer
from headbook.text.batches import Batch, collate
from headbook.types import Kind

HEADS, SEGMENTS = 4, 11
"""More segments than pass through the model together."""


def model(dropout: float) -> PublishedTransformer:
    torch.manual_seed(0)
    return PublishedTransformer(13, 2, 16, 24, HEADS, dropout).train()


def batch(length: int, padded: int = 0) -> Batch:
    """Segments of one length of which all but the first end in padding."""
    ids = torch.randint(3, 13, (SEGMENTS, length), generator=torch.Generator().manual_seed(1))
    if padded:
        ids[1:, -padded:] = 0
    return collate([((), row) for row in ids.tolist()], range(SEGMENTS))


def by_hand(model: PublishedTransformer, batch: Batch) -> dict[str, list[torch.Tensor]]:
    """The notebook's formulas, head by head, over every place of the batch."""
    with torch.no_grad(), capture(model, frozenset(Point)) as tape:
        model(batch)
    found: dict[str, list[torch.Tensor]] = {}
    for layer in range(2):
        queries, contexts, weights, output = (
            tape[Kind.DECODER, point][layer].double()
            for point in (Point.QUERIES, Point.CONTEXT, Point.WEIGHTS, Point.OUTPUT)
        )
        slices = output.chunk(HEADS, dim=-1)
        pairs = {name: torch.zeros(HEADS, HEADS, dtype=torch.float64)
                 for name in (ORTHOGONALITY, NON_ORTHOGONALITY, DISSIMILARITY)}  # fmt: skip
        for one in range(HEADS):
            for other in range(HEADS):
                if one == other:
                    continue
                of_queries = queries[:, one].flatten(0, 1).T @ queries[:, other].flatten(0, 1)
                of_contexts = contexts[:, one].flatten(0, 1).T @ contexts[:, other].flatten(0, 1)
                pairs[ORTHOGONALITY][one, other] = of_queries.abs().sum()
                pairs[NON_ORTHOGONALITY][one, other] = of_contexts.square().sum().sqrt()
                alike = cosine_similarity(slices[one], slices[other], dim=-1)
                pairs[DISSIMILARITY][one, other] = -alike.mean()
        for name, values in pairs.items():
            found.setdefault(name, []).append(values)
        spread = weights.var(dim=2, correction=0).mean(-1).mean(0)
        found.setdefault(ATTENTION, []).append(spread)
    return found


@pytest.mark.parametrize("padded", [0, 3])
@pytest.mark.parametrize("length", [9, 33])
def test_they_are_those_of_the_formulas(length: int, padded: int):
    own, text = model(0.0), batch(length, padded)
    found = diversity_in_training(own, Kind.DECODER, text)
    for metric, layers in by_hand(own, text).items():
        assert torch.allclose(found[metric, RAW].double(), torch.stack(layers), rtol=1e-4)


def test_padding_counts_here_and_nowhere_else():
    own, text = model(0.0), batch(33, 11)
    found = diversity_in_training(own, Kind.DECODER, text)
    without = four_metrics(own, Kind.DECODER, [text])
    for metric in (ORTHOGONALITY, NON_ORTHOGONALITY, DISSIMILARITY, ATTENTION):
        assert not torch.allclose(found[metric, RAW], without[metric, RAW], rtol=1e-2)


def test_weights_are_recorded_behind_dropout():
    own, text = model(0.5), batch(33)
    with dropped_first(own), capture(own, {Point.WEIGHTS, Point.VALUES, Point.CONTEXT}) as tape:
        own(text)
    weights, values, contexts = (
        tape[Kind.DECODER, point][1] for point in (Point.WEIGHTS, Point.VALUES, Point.CONTEXT)
    )
    last = weights[:, :, -1]  # spread evenly before dropout
    assert 0.4 < float((last == 0).float().mean()) < 0.6
    assert torch.allclose(weights @ values, contexts, atol=1e-6)


def test_dropout_raises_the_variance_of_weights(monkeypatch: pytest.MonkeyPatch):
    """The planted fault: weights as they were before dropout."""
    own, text = model(0.5), batch(33)
    found = diversity_in_training(own, Kind.DECODER, text)[ATTENTION, RAW]
    monkeypatch.setattr(notebook, "dropped_first", lambda model: torch.no_grad())
    before = diversity_in_training(own, Kind.DECODER, text)[ATTENTION, RAW]
    assert (found > 1.5 * before).all()


def test_the_training_does_not_notice():
    own, text = model(0.5), batch(9)
    state = torch.get_rng_state()
    first = diversity_in_training(own, Kind.DECODER, text)
    assert torch.equal(torch.get_rng_state(), state)
    again = diversity_in_training(own, Kind.DECODER, text)
    assert all(torch.equal(first[each], again[each]) for each in first)
    blocks = [block for _, _, block in own.attentions()]
    assert own.training and all(block.dropout.rate == 0.5 and not block.edits for block in blocks)
