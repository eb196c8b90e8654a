"""Capture: what is on the tape, that it is in the graph, and that nothing stays behind."""

import pytest
import torch
from blocks import ragged, tiny
from einops import rearrange

from headbook.models.capture import Point, Tape, capture
from headbook.models.transformer import Transformer
from headbook.text.batches import Batch
from headbook.types import Kind

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def run(model: Transformer, batch: Batch, points: set[Point] | None = None) -> Tape:
    with capture(model, points or set(Point)) as tape:
        model(batch)
    return tape


def test_points_follow_from_one_another() -> None:
    """Scores are QKᵀ/√d, weights their softmax, context weights times V, output context W_O."""
    model = tiny()
    tape = run(model, ragged([5, 3], [7, 6], extra=2))
    for kind, layer, block in model.attentions():
        seen = {point: tape[kind, point][layer] for point in Point}
        products = torch.einsum("bhqd,bhkd->bhqk", seen[Point.QUERIES], seen[Point.KEYS]) / 4**0.5
        visible = seen[Point.SCORES] > -torch.inf
        torch.testing.assert_close(seen[Point.SCORES][visible], products[visible], **CLOSE)
        weights = seen[Point.SCORES].exp() / seen[Point.SCORES].exp().sum(-1, keepdim=True)
        torch.testing.assert_close(seen[Point.WEIGHTS], weights, **CLOSE)
        context = torch.einsum("bhqk,bhkd->bhqd", weights, seen[Point.VALUES])
        torch.testing.assert_close(seen[Point.CONTEXT], context, **CLOSE)
        joined = rearrange(context, "batch head query dim -> batch query (head dim)")
        output = joined @ block.output.weight.T + block.output.bias
        torch.testing.assert_close(seen[Point.OUTPUT], output, **CLOSE)


def test_weights_are_taken_before_dropout() -> None:
    """In training the rows still sum to 1, while what reaches the values is dropped."""
    tape = run(tiny(dropout=0.5).train(), ragged([9, 9], [9, 9]))
    weights, values, context = (
        tape[Kind.ENCODER, point][0] for point in (Point.WEIGHTS, Point.VALUES, Point.CONTEXT)
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), **CLOSE)
    assert not torch.allclose(weights @ values, context)


def test_capture_changes_no_result_and_nothing_stays() -> None:
    model, batch = tiny(dropout=0.3).train(), ragged([5, 3], [4, 2])
    torch.manual_seed(0)
    plain = model(batch)
    torch.manual_seed(0)
    with pytest.raises(ZeroDivisionError), capture(model, set(Point)) as tape:
        assert torch.equal(model(batch), plain)
        raise ZeroDivisionError
    before = tape[Kind.ENCODER, Point.WEIGHTS][0]
    assert before.requires_grad
    model(ragged([3], [3]))
    assert all(block.record is None for _, _, block in model.attentions())
    assert tape[Kind.ENCODER, Point.WEIGHTS][0] is before


def test_what_is_kept_is_of_the_kinds_asked_for() -> None:
    model, batch = tiny(), ragged([5, 3], [7, 2])
    every = run(model, batch)
    with capture(model, {Point.WEIGHTS}, {Kind.CROSS}, lambda *at: at[-1].sum(-2)) as tape:
        model(batch)
    kept = [(kind, point) for kind in Kind for point in Point if (kind, point) in tape]
    assert kept == [(Kind.CROSS, Point.WEIGHTS)]
    for one, other in zip(tape[kept[0]], every[kept[0]], strict=True):
        assert torch.equal(one, other.sum(-2))
