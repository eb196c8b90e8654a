"""Gates: what is multiplied, where, and that they come off again."""

import pytest
import torch
from blocks import attention, drawn, joined, ragged, rows_of, tiny
from refusing import refused
from torch import nn

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.capture import Point
from headbook.models.gates import FixedGate, close_heads
from headbook.types import HeadId, Kind

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.parametrize("path", [AttentionPath.EXPLICIT, AttentionPath.FUSED])
def test_a_gate_weighs_each_heads_share_of_the_output(path: AttentionPath) -> None:
    """Σ_h g_h · context_h · W_O[h] + b, head by head; what is recorded is what each computed."""
    weights = torch.tensor([1.0, 0.0, -2.0], dtype=torch.float64)
    (states, mask), seen = rows_of(9), ({}, {})
    plain, gated = attention(), attention(path)
    gated.gate, plain.record = FixedGate(weights), seen[0].__setitem__
    plain(states, states, mask)
    shares = joined(seen[0][Point.CONTEXT] * weights[:, None, None])
    found = gated(states, states, mask)
    torch.testing.assert_close(found, plain.output(shares), **CLOSE)
    gated.record = seen[1].__setitem__
    gated(states, states, mask)
    assert torch.equal(seen[0][Point.CONTEXT], seen[1][Point.CONTEXT])


def test_heads_that_are_closed_for_good_are_so_until_others_are() -> None:
    model, batch = tiny(), ragged([3, 5], [4, 2])
    whole = model(batch)
    with refused("no head L3H1 of encoder attention"):
        close_heads(model, [HeadId(Kind.ENCODER, 0, 0), HeadId(Kind.ENCODER, 2, 0)])
    assert all(block.gate is None for _, _, block in model.attentions())
    close_heads(model, [HeadId(Kind.CROSS, 1, 2), HeadId(Kind.ENCODER, 0, 0)])
    gates = {(kind, layer): block.gate().tolist() for kind, layer, block in model.attentions()}
    assert gates[Kind.CROSS, 1] == [1, 1, 0, 1] and gates[Kind.ENCODER, 0] == [0, 1, 1, 1]
    assert sum(map(sum, gates.values())) == 22
    close_heads(model, [])
    assert torch.equal(model(batch), whole)


def test_a_block_without_heads_adds_its_bias_and_looks_at_nothing() -> None:
    block = Attention(16, 0, 0.5, AttentionPath.AUTO, head_width=4).double()
    nn.init.normal_(block.output.bias)
    states, cache = drawn(3, 5, 16), KeyValues()
    output = block(states, states, None, cache)
    assert torch.equal(output, block.output.bias.expand(3, 5, 16))
    cache.select(torch.tensor([0, 0]))
