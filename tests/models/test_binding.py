"""Roles: plain attention at one, the slow formula, causality, and widths that are refused."""

import pytest
import torch
from torch import nn

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.binding import Bound, ConstantRole, Roles, bind
from headbook.types import UserError

WIDTH, HEADS, LENGTHS = 12, 3, (1, 2, 9, 33, 129)


def attention(path: AttentionPath = AttentionPath.EXPLICIT) -> Attention:
    torch.manual_seed(0)
    return Attention(WIDTH, HEADS, 0.0, path).double()


def bound(path: AttentionPath = AttentionPath.EXPLICIT) -> Bound:
    return Bound(attention(path), nn.Linear(WIDTH, WIDTH).double())


def ragged(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows, of which two are shorter, and the mask of the padding."""
    generator = torch.Generator().manual_seed(length)
    states = torch.randn(3, length, WIDTH, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([length, max(1, length // 2), 1])
    return states, (torch.arange(length) < sizes[:, None])[:, None, None]


@pytest.mark.parametrize("length", LENGTHS)
def test_with_roles_of_one_it_is_plain_attention(length):
    states, mask = ragged(length)
    plain, of_query = attention(), bound()
    nn.init.zeros_(of_query.role.weight)
    nn.init.ones_(of_query.role.bias)
    for each in (of_query, Bound(plain, ConstantRole(WIDTH).double())):
        assert torch.equal(each(states, states, mask), plain(states, states, mask))


@pytest.mark.parametrize("path", [AttentionPath.EXPLICIT, AttentionPath.FUSED])
@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_the_slow_formula(length, path):
    """One query of one head at a time: the attended value times the role of the query's state."""
    block, (states, mask) = bound(path), ragged(length)
    size = WIDTH // HEADS
    found = block(states, states, mask)
    for row in range(3):
        real = states[row][mask[row, 0, 0]]
        for place in {0, length // 2, length - 1}:
            state, parts = states[row, place], []
            for head in range(HEADS):
                own = slice(head * size, (head + 1) * size)
                scores = [block.query(state)[own] @ block.key(x)[own] / size**0.5 for x in real]
                weights = torch.stack(scores).softmax(0)
                value = sum(w * block.value(x)[own] for w, x in zip(weights, real, strict=True))
                parts.append(value * (block.role.weight[own] @ state + block.role.bias[own]))
            torch.testing.assert_close(found[row, place], block.output(torch.cat(parts)))


def test_constant_roles_are_what_the_output_map_could_do():
    states, mask = ragged(9)
    plain = attention()
    role = ConstantRole(WIDTH).double()
    nn.init.normal_(role.role)
    found = Bound(plain, role)(states, states, mask)
    context = (found - plain.output.bias) @ torch.linalg.pinv((plain.output.weight * role.role).T)
    torch.testing.assert_close(
        context @ plain.output.weight.T + plain.output.bias, plain(states, states, mask)
    )


@pytest.mark.parametrize("roles", list(Roles))
def test_a_causal_model_with_roles_does_not_see_what_comes_later(tiny, roles):
    model = bind(tiny(encoder_layers=0), roles).double().eval()
    ids = torch.randint(3, 13, (2, 9), generator=torch.Generator().manual_seed(0))
    changed = ids.clone()
    changed[:, 6:] = 3 + (changed[:, 6:] - 2) % 10
    before, after = model.decode(ids, None, None), model.decode(changed, None, None)
    torch.testing.assert_close(before[:, :6], after[:, :6], rtol=0, atol=1e-12)
    assert not torch.allclose(before[:, 6:], after[:, 6:])


def test_step_by_step_with_a_cache_gives_the_same():
    block, (states, _) = bound(), ragged(9)
    cache = KeyValues()
    # self-attention is where memory and queries are one tensor
    steps = [block(each, each, None, cache) for each in states.split(1, dim=1)]
    causal = torch.ones(9, 9, dtype=torch.bool).tril()[None, None]
    torch.testing.assert_close(torch.cat(steps, 1), block(states, states, causal))


def test_roles_of_the_wrong_width_are_refused():
    for role in (nn.Linear(WIDTH, WIDTH // HEADS).double(), ConstantRole(5).double()):
        with pytest.raises(UserError, match=r"roles [45] wide for heads that are 12 wide"):
            Bound(attention(), role)
