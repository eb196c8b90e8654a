"""Norm-weighted attention against the explicit sum over positions, and planted values."""

import pytest
import torch
from torch import nn

from headbook.heads.norms import (
    NormShares,
    norm_weights,
    value_norms,
)
from headbook.heads.outputs import output_parts, parts_of
from headbook.heads.scores import special
from headbook.models.capture import Point, capture
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import collate
from headbook.types import Kind, UserError

KINDS = (Kind.ENCODER, Kind.DECODER, Kind.CROSS)


@pytest.fixture
def model() -> Transformer:
    """Two layers of four heads, biases included."""
    torch.manual_seed(0)
    built = Transformer(TransformerConfig(30, 30, 2, 2, 16, 24, 4, dropout=0.0)).eval()
    for parameter in built.parameters():
        nn.init.normal_(parameter.data, std=0.4)
    return built


@pytest.fixture
def batch():
    return collate([([5, 6, 7, 9, 1], [8, 9, 1]), ([5, 1], [4, 1])], [0, 1])


@torch.no_grad()
def recorded(model: Transformer, batch):
    with capture(model, {Point.WEIGHTS, Point.VALUES, Point.OUTPUT}) as tape:
        model(batch)
    return tape


@pytest.mark.parametrize("kind", KINDS)
def test_the_explicit_sum_over_positions(model: Transformer, batch, kind: Kind) -> None:
    """f(x_j) is built vector by vector from the states that W_V reads."""
    states: dict[nn.Module, torch.Tensor] = {}
    blocks = [block for found, _, block in model.attentions() if found is kind]
    for block in blocks:
        block.value.register_forward_hook(lambda m, i, o, block=block: states.update({block: i[0]}))
    tape = recorded(model, batch)
    norms = norm_weights(tape, kind, output_parts(model, kind))
    for layer, block in enumerate(blocks):
        weights, added = tape[kind, Point.WEIGHTS][layer], torch.zeros(())
        for head in range(4):
            rows = slice(4 * head, 4 * head + 4)
            values = states[block] @ block.value.weight[rows].T + block.value.bias[rows]
            f = values @ block.output.weight[:, rows].T
            vectors = weights[:, head, :, :, None] * f[:, None]
            torch.testing.assert_close(norms[layer][:, head], vectors.norm(dim=-1))
            added = added + vectors.sum(2)
        output = tape[kind, Point.OUTPUT][layer]
        torch.testing.assert_close(added + block.output.bias, output, rtol=1e-4, atol=1e-5)


def test_shares_sum_to_one_and_leave_the_padding_out(model: Transformer, batch) -> None:
    tape = recorded(model, batch)
    shares = NormShares(tape, {Kind.ENCODER: output_parts(model, Kind.ENCODER)})
    for layer in shares[Kind.ENCODER, Point.WEIGHTS]:
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))
        assert (layer[1, :, :, 2:] == 0).all()


def test_a_token_whose_value_is_zero_is_taken_nothing_from(model: Transformer, batch) -> None:
    """The EOS of both sentences is made to give nothing, whatever weight rests on it."""
    for kind, _, block in model.attentions():
        if kind is Kind.ENCODER:
            block.value.register_forward_hook(
                lambda module, inputs, output: output.index_fill(1, torch.tensor([4]), 0.0)
            )
    first = batch.select(slice(0, 1))
    tape = recorded(model, first)
    norms = NormShares(tape, {Kind.ENCODER: output_parts(model, Kind.ENCODER)})
    assert (special(tape, first)[0] > 0.01).all()
    assert special(norms, first)[0].abs().max() < 1e-6


def test_values_and_parts_by_hand() -> None:
    values = torch.tensor([[[[3.0], [0.0]], [[1.0], [2.0]]]])  # one sentence, two heads, two keys
    parts = parts_of(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), heads=2)
    assert value_norms(values, parts).tolist() == [[[3, 0], [2, 4]]]


def test_what_is_out_of_reach_is_one_line(model: Transformer, batch) -> None:
    with capture(model, {Point.WEIGHTS}) as tape:
        model(batch)
    with pytest.raises(UserError, match="use weights alone"):
        norm_weights(tape, Kind.ENCODER, output_parts(model, Kind.ENCODER))
