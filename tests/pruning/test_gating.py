"""Learning which heads to keep: what the penalty reaches, what is frozen, what is kept."""

import math

import pytest
import torch
from blocks import tiny
from refusing import refused
from torch.nn import functional

from headbook.models.attention import Attention, AttentionPath
from headbook.models.gates import FixedGate
from headbook.models.transformer import Transformer
from headbook.pruning import gating
from headbook.pruning.gating import HeadPenalty, gate_heads, gates
from headbook.pruning.hard_concrete import CONSTANTS, HardConcrete
from headbook.types import HeadId, Kind

CODE = CONSTANTS["code"]


def gated(kinds: tuple[Kind, ...] = tuple(Kind)) -> Transformer:
    model = tiny(dtype=torch.float32).eval()
    gate_heads(model, kinds, CODE, seed=1)
    return model


def test_the_penalty_reaches_every_gate_of_every_gated_block() -> None:
    """Its gradient at every gate is λ p (1 - p), whatever else is gated."""
    model = gated(kinds := (Kind.DECODER, Kind.CROSS))
    where = {(kind, layer) for kind, layer, _ in gates(model)}
    assert where == {(kind, layer) for kind in kinds for layer in range(2)}
    penalty, expected = HeadPenalty(0.05), 0.0
    found = penalty(model)
    found.backward()
    for _, _, gate in gates(model):
        p = gate.open_probability().detach()
        expected += 0.05 * float(p.sum())
        torch.testing.assert_close(gate.log_alpha.grad, 0.05 * p * (1 - p))
    assert float(found.detach()) == pytest.approx(expected, rel=1e-5)


def test_what_is_trained_is_in_one_group_and_gates_have_a_rate_of_their_own() -> None:
    model = gated()
    weights, of_gates = gating.parameter_groups(model, 7.0)
    assert of_gates["factor"] == 7.0 and len(of_gates["params"]) == 6 and "factor" not in weights
    grouped = map(id, [*weights["params"], *of_gates["params"]])
    assert sorted(grouped) == sorted(map(id, model.parameters()))


def test_the_row_and_the_closed_heads_by_hand() -> None:
    model = gated((Kind.CROSS,))
    for layer, values in enumerate([[-3.0, -1.0, 1.0, 3.0], [9.0, 9.0, -9.0, 0.1]]):
        model.decoder[layer].cross.gate.log_alpha.data = torch.tensor(values)
    closed = [HeadId(Kind.CROSS, 0, 0), HeadId(Kind.CROSS, 0, 1), HeadId(Kind.CROSS, 1, 2)]
    assert list(gating.decided_closed(model)) == closed
    row, shift = HeadPenalty(1.0).row(model), 0.33 * math.log(11)
    expected = sum(1 / (1 + math.exp(-(a + shift))) for a in (-3, -1, 1, 3, 9, 9, -9, 0.1))
    assert row == {"expected_heads": pytest.approx(expected, rel=1e-5), "kept_heads": 5.0,
                   "saturated_share": pytest.approx(5 / 8)}  # fmt: skip


def test_gates_saturate_and_keep_the_head_that_is_needed() -> None:
    """Of four heads the target holds the third alone; only gates are trained."""
    torch.manual_seed(0)
    block = Attention(16, 4, 0.0, AttentionPath.EXPLICIT).requires_grad_(requires_grad=False)
    gate, needed = HardConcrete(torch.zeros(4), CODE), FixedGate(torch.eye(4)[2])
    optimiser = torch.optim.Adam(gate.parameters(), lr=0.1)
    for _ in range(150):
        states, found = torch.randn(8, 5, 16), []
        for block.gate in (needed, gate):
            found.append(block(states, states))
        loss = functional.mse_loss(*found) / found[0].var() + 0.03 * gate.open_probability().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert gate.saturated().tolist() == [1, 1, 1, 1]
    assert gate.eval()().tolist() == [0, 0, 1, 0]


def test_what_cannot_be_gated_is_refused() -> None:
    model = tiny(decoder_layers=0)
    with refused("no attention to gate: the model has no"):
        gate_heads(model, (Kind.ENCODER, Kind.DECODER), CODE, seed=0)
