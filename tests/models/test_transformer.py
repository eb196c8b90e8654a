"""The transformer: causality, padding, its variants by layer counts, positions and size."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headbook.models.attention import Attention, AttentionPath
from headbook.models.capture import Point, capture
from headbook.models.transformer import (
    NormPlacement,
    Transformer,
    TransformerConfig,
    sinusoids,
)
from headbook.text.batches import EOS, PAD, Batch
from headbook.types import Kind, UserError

# Double precision: what is left is the order of summation, which the width of a batch changes.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
PATHS = [AttentionPath.EXPLICIT, AttentionPath.FUSED]


def change(batch: Batch, side: str, position: int) -> Batch:
    """The batch with another word at one position of one side."""
    changed = {name: each.clone() for name, each in vars(batch).items() if each is not None}
    column = changed[side][:, position]
    changed[side][:, position] = torch.where(column == 3, 4, 3)
    return Batch(**changed)


def assert_causal(model: Transformer, batch: Batch, position: int) -> None:
    """Another target word changes logits from its position on and none before it."""
    before, after = model(batch), model(change(batch, "target_in", position))
    torch.testing.assert_close(
        before[:, :position], after[:, :position], **CLOSE, msg="an earlier logit moved"
    )
    moved = (before - after).abs().amax(dim=(0, 2))
    assert (moved[position:] > 1e-6).all(), "a later logit did not move"


def assert_padding_changes_nothing(model: Transformer, build: Callable[[int], Batch]) -> None:
    plain, wider = build(0), build(3)
    ours, theirs = model(plain)[plain.target_mask], model(wider)[wider.target_mask]
    torch.testing.assert_close(ours, theirs, **CLOSE, msg="padding moved a real logit")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encoder_layers", [2, 0])
@pytest.mark.parametrize("position", [0, 1, 5, 8])
def test_no_target_word_is_seen_before_its_time(
    position: int, encoder_layers: int, path: AttentionPath, tiny: Callable, ragged: Callable
) -> None:
    model = tiny(encoder_layers=encoder_layers, path=path)
    assert_causal(model, ragged([5, 3], [9, 9]), position)


@pytest.mark.parametrize("position", [0, 4, 8])
def test_encoder_only_looks_both_ways(position: int, tiny: Callable, ragged: Callable) -> None:
    model, batch = (
        tiny(decoder_layers=0, source_vocabulary=11),
        ragged([9, 9], [1, 1], vocabulary=11),
    )
    before, after = model(batch), model(change(batch, "source", position))
    assert before.shape == (2, 9, 11)
    assert ((before - after).abs().amax(dim=(0, 2)) > 1e-6).all()


def test_every_source_word_is_seen_by_every_target_position(
    tiny: Callable, ragged: Callable
) -> None:
    model, batch = tiny(), ragged([5], [4])
    moved = (model(batch) - model(change(batch, "source", 4))).abs().amax(dim=(0, 2))
    assert (moved > 1e-6).all()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("source", "target"), [([5, 2, 1], [1, 7, 3]), ([2], [2]), ([1], [1])])
def test_more_padding_changes_no_real_position(
    source: list[int], target: list[int], path: AttentionPath, tiny: Callable, ragged: Callable
) -> None:
    assert_padding_changes_nothing(
        tiny(path=path), lambda extra: ragged(source, target, extra=extra)
    )


def test_more_padding_changes_no_real_position_of_an_encoder_alone(
    tiny: Callable, ragged: Callable
) -> None:
    model = tiny(decoder_layers=0)
    plain, wider = ragged([5, 2], [1, 1]), ragged([5, 2], [1, 1], extra=4)
    ours, theirs = model(plain)[plain.source_mask], model(wider)[wider.source_mask]
    torch.testing.assert_close(ours, theirs, **CLOSE)


def test_a_sentence_gets_the_same_logits_alone_and_in_a_batch(
    tiny: Callable, ragged: Callable
) -> None:
    model, batch = tiny(), ragged([5, 2, 9], [3, 7, 1])
    together = model(batch)
    for row in range(3):
        source, target = batch.source_mask[row].sum(), batch.target_mask[row].sum()
        alone = Batch(
            source=batch.source[row : row + 1, :source],
            target_in=batch.target_in[row : row + 1, :target],
            target_out=batch.target_out[row : row + 1, :target],
            sentences=batch.sentences[row : row + 1],
        )
        torch.testing.assert_close(model(alone)[0], together[row, :target], **CLOSE)


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize(("source", "target"), [([9, 4], [7, 2]), ([33], [1]), ([1], [9])])
def test_both_paths_give_the_same_logits_and_gradients(
    source: list[int], target: list[int], norm: NormPlacement, tiny: Callable, ragged: Callable
) -> None:
    batch, results = ragged(source, target), []
    for path in PATHS:
        model = tiny(norm=norm, path=path)
        logits = model(batch)
        logits[batch.target_mask].square().sum().backward()
        results.append({name: value.grad for name, value in model.named_parameters()})
        results[-1]["logits"] = logits
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("encoder_layers", "decoder_layers", "kinds"),
    [
        (2, 3, {Kind.ENCODER: 2, Kind.DECODER: 3, Kind.CROSS: 3}),
        (2, 0, {Kind.ENCODER: 2}),
        (0, 2, {Kind.DECODER: 2}),
    ],
)
def test_layer_counts_choose_the_variant(
    encoder_layers: int, decoder_layers: int, kinds: dict, tiny: Callable, ragged: Callable
) -> None:
    model = tiny(encoder_layers=encoder_layers, decoder_layers=decoder_layers)
    with capture(model, {Point.WEIGHTS}) as tape:
        logits = model(ragged([4, 2], [3, 3]))
    assert {kind: len(tape[kind, Point.WEIGHTS]) for kind in Kind if kind_in(tape, kind)} == kinds
    logits.sum().backward()
    unused = [name for name, value in model.named_parameters() if value.grad is None]
    assert not unused


def kind_in(tape: object, kind: Kind) -> bool:
    return (kind, Point.WEIGHTS) in tape


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize(("encoder", "decoder"), [(2, 3), (2, 0), (0, 3)])
def test_number_of_parameters(
    encoder: int, decoder: int, norm: NormPlacement, tiny: Callable
) -> None:
    model = tiny(encoder_layers=encoder, decoder_layers=decoder, norm=norm, source_vocabulary=11)
    width, inner, sides = 16, 24, [11] * bool(encoder) + [13] * bool(decoder)
    attention, layer_norm = 4 * (width * width + width), 2 * width
    feed_forward = 2 * width * inner + width + inner
    crosses = decoder if encoder else 0
    expected = (
        sum(vocabulary * width + width for vocabulary in sides)
        + encoder * (attention + feed_forward + 2 * layer_norm)
        + decoder * (attention + feed_forward + 2 * layer_norm)
        + crosses * (attention + layer_norm)
        + layer_norm * len(sides) * (norm is NormPlacement.PRE)
        + width * sides[-1]
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


def test_position_signal_at_known_places() -> None:
    """Width 4: frequencies 1 and 1/10,000; sines fill the first half, cosines the second."""
    signal = sinusoids(3, 4).double()
    expected = torch.tensor([[0, 0, 1, 1], [0.8414709848, 1e-4, 0.5403023059, 1 - 5e-9]]).double()
    torch.testing.assert_close(signal[:2], expected, rtol=0, atol=1e-7)
    assert torch.equal(sinusoids(600, 16)[:256], sinusoids(256, 16))


def test_positions_beyond_the_prepared_ones_are_made(tiny: Callable) -> None:
    embedding = tiny().source
    ids = torch.full((1, 300), EOS)
    later = embedding(ids[:, :1], first=299)
    torch.testing.assert_close(embedding(ids)[:, 299:], later, **CLOSE)
    difference = embedding(ids)[0] - embedding(ids)[0, 0]
    expected = (sinusoids(300, 16) - sinusoids(1, 16)).double()
    torch.testing.assert_close(difference, expected, rtol=0, atol=1e-6)


def test_padding_embeds_to_the_position_signal_alone(tiny: Callable) -> None:
    """So that the decoder starts from a zero vector, whatever PAD's row has become."""
    embedding = tiny().target
    vector = embedding(torch.tensor([[PAD]]))[0, 0]
    torch.testing.assert_close(vector, sinusoids(1, 16)[0].double(), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10}, "width 10 is not a multiple of heads 4"),
        ({"encoder_layers": 0, "decoder_layers": 0}, "encoder_layers or decoder_layers"),
        ({"dropout": 1.0}, r"dropout 1.0 is not in \[0, 1\)"),
        ({"dropout": -0.1}, r"dropout -0.1 is not in"),
    ],
)
def test_impossible_configuration_is_refused_in_one_line(
    options: dict, message: str, tiny: Callable
) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        tiny(**options)
    assert "\n" not in str(refusal.value)


def test_defaults_are_the_paper_s() -> None:
    config = TransformerConfig(10, 10)
    shape = config.encoder_layers, config.decoder_layers, config.width, config.feed_forward
    assert shape == (6, 6, 512, 2048)
    assert (config.heads, config.dropout, config.norm) == (8, 0.1, NormPlacement.PRE)


def test_dropout_acts_in_training_and_not_in_evaluation(tiny: Callable, ragged: Callable) -> None:
    model, batch = tiny(dropout=0.2), ragged([4], [4])
    assert not torch.equal(model.train()(batch), model(batch))
    assert torch.equal(model.eval()(batch), model(batch))


EXPLICIT = Attention._explicit


def unmasked(
    self: Attention, query: Tensor, key: Tensor, value: Tensor, _: Tensor | None
) -> Tensor:
    return EXPLICIT(self, query, key, value, None)


def test_planted_missing_mask_breaks_causality_and_padding(
    monkeypatch: pytest.MonkeyPatch, tiny: Callable, ragged: Callable
) -> None:
    monkeypatch.setattr(Attention, "_explicit", unmasked)
    with pytest.raises(AssertionError, match="an earlier logit moved"):
        assert_causal(tiny(), ragged([5], [6]), 3)
    with pytest.raises(AssertionError, match="padding moved a real logit"):
        assert_padding_changes_nothing(tiny(), lambda extra: ragged([5], [6], extra=extra))
