"""Capture: what is on the tape, that it is in the graph, and that nothing stays behind."""

from collections.abc import Callable

import pytest
import torch
from einops import rearrange
from torch import Tensor

from headbook.models.attention import Attention, AttentionPath
from headbook.models.capture import Point, Tape, capture
from headbook.models.transformer import Transformer
from headbook.text.batches import Batch
from headbook.types import Kind

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
EVERYTHING = set(Point)


def run(model: Transformer, batch: Batch, points: set[Point] = EVERYTHING) -> Tape:
    with capture(model, points) as tape:
        model(batch)
    return tape


def assert_rows_sum_to_one(tape: Tape) -> None:
    for kind in Kind:
        for weights in tape[kind, Point.WEIGHTS]:
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), **CLOSE)


def assert_padded_keys_get_nothing(tape: Tape, batch: Batch) -> None:
    real = {Kind.ENCODER: batch.source_mask, Kind.CROSS: batch.source_mask}
    for kind, mask in real.items():
        for weights in tape[kind, Point.WEIGHTS]:
            given = weights.masked_select(~mask[:, None, None, :])
            assert len(given)
            assert (given == 0).all(), f"padded keys of {kind} attention have weight"
    for weights in tape[Kind.DECODER, Point.WEIGHTS]:
        from_real = batch.target_mask[:, None, :, None] & ~batch.target_mask[:, None, None, :]
        given = weights.masked_select(from_real)
        assert len(given)
        assert (given == 0).all(), "real queries of the decoder look at padding"


def test_shapes_of_every_point(tiny: Callable, ragged: Callable) -> None:
    tape = run(tiny(), ragged([5, 3], [7, 2]))
    lengths = {Kind.ENCODER: (5, 5), Kind.DECODER: (7, 7), Kind.CROSS: (7, 5)}
    for kind, (query, key) in lengths.items():
        shapes = {
            Point.QUERIES: (2, 4, query, 4),
            Point.KEYS: (2, 4, key, 4),
            Point.VALUES: (2, 4, key, 4),
            Point.SCORES: (2, 4, query, key),
            Point.WEIGHTS: (2, 4, query, key),
            Point.CONTEXT: (2, 4, query, 4),
            Point.OUTPUT: (2, query, 16),
        }
        for point, shape in shapes.items():
            assert [tuple(value.shape) for value in tape[kind, point]] == [shape, shape]


def test_points_follow_from_one_another(tiny: Callable, ragged: Callable) -> None:
    """Scores are QKᵀ/√d, weights their softmax, context weights times V, output context W_O."""
    model = tiny()
    tape = run(model, ragged([5, 5], [7, 6]))
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


def test_layers_come_in_order_from_the_input_upward(tiny: Callable, ragged: Callable) -> None:
    model = tiny(encoder_layers=3)
    seen: list[Tensor] = []
    for layer in model.encoder:
        layer.attention.register_forward_hook(lambda _, __, output: seen.append(output))
    tape = run(model, ragged([4], [3]), {Point.OUTPUT})
    outputs = tape[Kind.ENCODER, Point.OUTPUT]
    assert all(one is other for one, other in zip(outputs, seen, strict=True))


@pytest.mark.parametrize("lengths", [[1, 1], [1, 2], [2, 9], [9, 33], [33, 5, 1]])
def test_weights_are_a_distribution_over_real_keys(
    lengths: list[int], tiny: Callable, ragged: Callable
) -> None:
    batch = ragged(lengths, lengths[::-1], extra=2)
    tape = run(tiny(), batch)
    assert_rows_sum_to_one(tape)
    assert_padded_keys_get_nothing(tape, batch)
    for kind in Kind:
        for point in set(Point) - {Point.SCORES}:
            assert all(value.isfinite().all() for value in tape[kind, point])


def test_weights_are_taken_before_dropout(tiny: Callable, ragged: Callable) -> None:
    """In training the rows still sum to 1, while what reaches the values is dropped."""
    tape = run(tiny(dropout=0.5).train(), ragged([9, 9], [9, 9]))
    assert_rows_sum_to_one(tape)
    weights, values, context = (
        tape[Kind.ENCODER, point][0] for point in (Point.WEIGHTS, Point.VALUES, Point.CONTEXT)
    )
    assert not torch.allclose(weights @ values, context)


def test_captured_weights_are_part_of_the_graph(tiny: Callable, ragged: Callable) -> None:
    model, batch = tiny(), ragged([5, 3], [4, 2])
    with capture(model, {Point.WEIGHTS}) as tape:
        loss = model(batch).log_softmax(-1)[batch.target_mask].square().sum()
    weights = [one for kind in Kind for one in tape[kind, Point.WEIGHTS]]
    for gradient in torch.autograd.grad(loss, weights):
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


def test_gradient_of_a_weight_is_its_effect(tiny: Callable, ragged: Callable) -> None:
    """Against a finite difference, by moving one weight of the last cross-attention."""
    model, batch = tiny(), ragged([3], [2])
    with capture(model, {Point.WEIGHTS}) as tape:
        loss = model(batch).square().sum()
    gradient = torch.autograd.grad(loss, tape[Kind.CROSS, Point.WEIGHTS][1])[0][0, 2, 1, 0]
    step, moved = 1e-6, []
    for sign in (1, -1):

        def nudge(_module: torch.nn.Module, weights: tuple[Tensor], sign: int = sign) -> Tensor:
            weights[0][0, 2, 1, 0] += sign * step
            return weights[0]

        with torch.no_grad():
            hook = model.decoder[1].cross.dropout.register_forward_pre_hook(nudge)
            moved.append(model(batch).square().sum())
            hook.remove()
    difference = (moved[0] - moved[1]) / (2 * step)
    # Central differences in double precision are good to about six digits at this step.
    torch.testing.assert_close(gradient, difference, rtol=1e-5, atol=1e-7)


def test_capture_changes_no_result(tiny: Callable, ragged: Callable) -> None:
    model, batch = tiny(dropout=0.3).train(), ragged([5, 3], [4, 2])
    torch.manual_seed(0)
    plain = model(batch)
    torch.manual_seed(0)
    with capture(model, EVERYTHING):
        assert torch.equal(model(batch), plain)


def test_nothing_stays_after_the_block(tiny: Callable, ragged: Callable) -> None:
    model, batch = tiny(), ragged([5], [4])
    with capture(model, {Point.WEIGHTS}) as tape:
        model(batch)
    before = tape[Kind.ENCODER, Point.WEIGHTS][0]
    model(ragged([3], [3]))
    assert all(block.record is None for _, _, block in model.attentions())
    assert tape[Kind.ENCODER, Point.WEIGHTS][0] is before


def test_nothing_stays_after_an_exception(tiny: Callable, ragged: Callable) -> None:
    model = tiny()
    with pytest.raises(ZeroDivisionError), capture(model, {Point.WEIGHTS}):
        raise ZeroDivisionError
    assert all(block.record is None for _, _, block in model.attentions())
    run(model, ragged([2], [2]))


def test_without_capture_the_fused_path_holds_no_weights(
    monkeypatch: pytest.MonkeyPatch, tiny: Callable, ragged: Callable
) -> None:
    calls = []
    explicit = Attention._explicit

    def counted(self: Attention, *inputs: Tensor | None) -> Tensor:
        calls.append(self)
        return explicit(self, *inputs)

    monkeypatch.setattr(Attention, "_explicit", counted)
    model, batch = tiny(path=AttentionPath.FUSED), ragged([5], [4])
    model(batch)
    assert not calls
    run(model, batch)
    assert len(calls) == 6


def test_captures_do_not_nest_and_the_outer_one_goes_on(tiny: Callable, ragged: Callable) -> None:
    model = tiny()
    with capture(model, {Point.WEIGHTS}) as tape:
        with pytest.raises(RuntimeError, match="captured already"), capture(model, {Point.KEYS}):
            pass
        model(ragged([2], [2]))
    assert (Kind.CROSS, Point.WEIGHTS) in tape


def test_only_the_kinds_asked_for_are_recorded(tiny: Callable, ragged: Callable) -> None:
    model, batch = tiny(), ragged([5, 3], [7, 2])
    every = run(model, batch)
    with capture(model, {Point.WEIGHTS}, {Kind.CROSS}) as tape:
        recorded = {kind for kind, _, block in model.attentions() if block.record is not None}
        model(batch)
    assert recorded == {Kind.CROSS}
    kept = [(kind, point) for kind in Kind for point in Point if (kind, point) in tape]
    assert kept == [(Kind.CROSS, Point.WEIGHTS)]
    for one, other in zip(tape[kept[0]], every[kept[0]], strict=True):
        assert torch.equal(one, other)


def test_only_what_is_made_of_a_value_is_kept(tiny: Callable, ragged: Callable) -> None:
    model, batch, seen = tiny(), ragged([5, 3], [7, 2]), []

    def keep(value: Tensor) -> Tensor:
        seen.append(tuple(value.shape))
        return value.sum(-1)

    plain = model(batch)
    with capture(model, {Point.WEIGHTS, Point.KEYS}, tuple(Kind), keep) as tape:
        assert torch.equal(model(batch), plain)
    assert len(seen) == 2 * 6 and seen[:2] == [(2, 4, 5, 4), (2, 4, 5, 5)]
    assert [tuple(each.shape) for each in tape[Kind.CROSS, Point.WEIGHTS]] == [(2, 4, 7)] * 2
    whole = run(model, batch)[Kind.DECODER, Point.KEYS]
    for kept, value in zip(tape[Kind.DECODER, Point.KEYS], whole, strict=True):
        assert torch.equal(kept, value.sum(-1))


def test_a_point_not_asked_for_is_refused_by_name(tiny: Callable, ragged: Callable) -> None:
    tape = run(tiny(), ragged([2], [2]), {Point.WEIGHTS})
    assert (Kind.ENCODER, Point.KEYS) not in tape
    with pytest.raises(KeyError, match=r"encoder/keys was not captured.*encoder/weights.*cross"):
        tape[Kind.ENCODER, Point.KEYS]
    with pytest.raises(KeyError, match="the tape holds nothing"):
        Tape()[Kind.ENCODER, Point.KEYS]


def test_planted_capture_after_dropout_is_seen(
    monkeypatch: pytest.MonkeyPatch, tiny: Callable, ragged: Callable
) -> None:
    explicit = Attention._explicit

    def after_dropout(self: Attention, *inputs: Tensor | None) -> Tensor:
        record = self.record

        def dropped(point: Point, value: Tensor) -> None:
            record(point, self.dropout(value) if point is Point.WEIGHTS else value)

        self.record = dropped
        context = explicit(self, *inputs)
        self.record = record
        return context

    monkeypatch.setattr(Attention, "_explicit", after_dropout)
    tape = run(tiny(dropout=0.5).train(), ragged([9, 9], [9, 9]))
    with pytest.raises(AssertionError, match="not close"):
        assert_rows_sum_to_one(tape)


def test_planted_missing_mask_is_seen(
    monkeypatch: pytest.MonkeyPatch, tiny: Callable, ragged: Callable
) -> None:
    explicit = Attention._explicit
    monkeypatch.setattr(
        Attention, "_explicit", lambda self, q, k, v, _: explicit(self, q, k, v, None)
    )
    batch = ragged([5, 3], [4, 2])
    with pytest.raises(AssertionError, match="padded keys of encoder attention"):
        assert_padded_keys_get_nothing(run(tiny(), batch), batch)
