"""Roles: plain attention at one, the slow formula, causality, and decoding."""

import pytest
import torch
from blocks import HEADS, WIDTH, attention, rows_of
from torch import nn

from headbook.models.attention import AttentionPath
from headbook.models.binding import Bound, ConstantRole


def bound(path: AttentionPath = AttentionPath.EXPLICIT) -> Bound:
    return Bound(attention(path), nn.Linear(WIDTH, WIDTH).double())


def test_with_roles_of_one_it_is_plain_attention_and_constant_roles_scale_its_output_map():
    states, mask = rows_of(9)
    plain, constant = attention(), ConstantRole(WIDTH).double()
    assert torch.equal(Bound(plain, constant)(states, states, mask), plain(states, states, mask))
    nn.init.normal_(constant.role)
    found = Bound(plain, constant)(states, states, mask)
    plain.output.weight.data *= constant.role
    torch.testing.assert_close(found, plain(states, states, mask))


@pytest.mark.parametrize("path", [AttentionPath.EXPLICIT, AttentionPath.FUSED])
def test_it_is_the_slow_formula(path):
    """One query of one head at a time: the attended value times the role of the query's state."""
    block, (states, mask) = bound(path), rows_of(9)
    size = WIDTH // HEADS
    found = block(states, states, mask)
    for row in range(3):
        real = states[row][mask[row, 0, 0]]
        for place in (0, 4, 8):
            state, parts = states[row, place], []
            for head in range(HEADS):
                own = slice(head * size, (head + 1) * size)
                scores = [block.query(state)[own] @ block.key(x)[own] / size**0.5 for x in real]
                weights = torch.stack(scores).softmax(0)
                value = sum(w * block.value(x)[own] for w, x in zip(weights, real, strict=True))
                parts.append(value * (block.role.weight[own] @ state + block.role.bias[own]))
            torch.testing.assert_close(found[row, place], block.output(torch.cat(parts)))
