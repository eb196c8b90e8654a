"""Roles: plain attention at one, the slow formula, causality, and decoding."""

import pytest
import torch
from blocks import WIDTH, attention, joined, rows_of
from torch import nn

from headbook.models.attention import AttentionPath
from headbook.models.binding import Bound, ConstantRole
from headbook.models.capture import Point


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
def test_a_context_is_multiplied_by_the_role_of_the_query_s_state(path):
    block, plain, tape, (states, mask) = bound(path), attention(), {}, rows_of(9)
    plain.record = tape.__setitem__
    plain(states, states, mask)
    wanted = block.output(joined(tape[Point.CONTEXT]) * block.role(states))
    torch.testing.assert_close(block(states, states, mask), wanted)
