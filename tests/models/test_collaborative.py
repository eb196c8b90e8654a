"""Collaborative attention: its formula, ordinary heads as its special case, and what is refused."""

from dataclasses import replace

import pytest
import torch

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.collaborative import (
    Collaborative,
    Factors,
    Narrow,
    concatenated,
    content_bias,
)
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.types import UserError

WIDTH, HEADS, DIMS = 12, 3, 5
LENGTHS = (1, 2, 9, 33, 129)
PATHS = (AttentionPath.EXPLICIT, AttentionPath.FUSED)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain(path: AttentionPath = AttentionPath.EXPLICIT) -> Attention:
    torch.manual_seed(0)
    return Attention(WIDTH, HEADS, 0.0, path).double()


def some_factors() -> Factors:
    return Factors(drawn(WIDTH, DIMS, seed=1), drawn(WIDTH, DIMS, seed=2),
                   drawn(HEADS, DIMS, seed=3), drawn(HEADS, WIDTH, seed=4), 4)  # fmt: skip


def ragged(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows, of which two are shorter, and the mask of the padding."""
    sizes = torch.tensor([length, max(1, length // 2), 1])
    return drawn(3, length, WIDTH), (torch.arange(length) < sizes[:, None])[:, None, None]


def some(length: int) -> list[int]:
    """Places that are compared: those near the ends and a few between."""
    return sorted({*range(min(length, 4)), *range(max(0, length - 3), length),
                   *range(9, length, 40)})  # fmt: skip


def slowly(block: Attention, factors: Factors, states, mask) -> torch.Tensor:
    """Every head's bilinear form as one dense matrix, one query and one key at a time."""
    values, context = block.value(states), torch.zeros_like(states)
    for row, real in enumerate(mask[:, 0, 0]):
        known = states[row][real]
        for head in range(HEADS):
            form = factors.queries @ torch.diag(factors.mixing[head]) @ factors.keys.T
            part = slice(head * 4, (head + 1) * 4)
            for place in some(states.shape[1]):
                scores = [(states[row, place] @ form @ key + factors.content[head] @ key)
                          / factors.width**0.5 for key in known]  # fmt: skip
                weights = torch.stack(scores).softmax(0)
                context[row, place, part] = weights @ values[row, : len(known), part]
    return block.output(context)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", LENGTHS)
def test_by_its_formula_one_query_at_a_time(length, path):
    block = Collaborative.of(plain(path), some_factors())
    states, mask = ragged(length)
    found = block(states, states, mask)
    wanted = slowly(block, some_factors(), states, mask)
    torch.testing.assert_close(found[:, some(length)], wanted[:, some(length)])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", LENGTHS)
def test_block_one_hot_mixing_is_ordinary_attention(length, path):
    """Biases of queries and keys among them, which are not zero here."""
    ordinary = plain(path)
    with torch.no_grad():
        for linear in (ordinary.query, ordinary.key):
            linear.bias.copy_(drawn(WIDTH, seed=5))
    whole = concatenated(ordinary.query, ordinary.key, HEADS)
    states, mask = ragged(length)
    found = Collaborative.of(ordinary, whole)(states, states, mask)
    torch.testing.assert_close(found, ordinary(states, states, mask))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", LENGTHS)
def test_narrow_heads_by_the_slow_formula(length, path):
    """With six dimensions for three heads; none of the values'."""
    torch.manual_seed(0)
    narrow = Narrow(WIDTH, HEADS, 6, path=path).double()
    whole = concatenated(narrow.query, narrow.key, HEADS)
    states, mask = ragged(length)
    found = narrow(states, states, mask)
    wanted = slowly(narrow, whole, states, mask)
    torch.testing.assert_close(found[:, some(length)], wanted[:, some(length)])


def test_the_querys_bias_is_kept_and_the_keys_drops_out():
    ordinary, states = plain(), drawn(2, 9, WIDTH)
    before = ordinary(states, states)
    with torch.no_grad():
        ordinary.key.bias.copy_(10 * drawn(WIDTH, seed=6))
    torch.testing.assert_close(ordinary(states, states), before)
    with torch.no_grad():
        ordinary.query.bias.copy_(drawn(WIDTH, seed=5))
    wanted = ordinary(states, states)
    whole = concatenated(ordinary.query, ordinary.key, HEADS)
    torch.testing.assert_close(Collaborative.of(ordinary, whole)(states, states), wanted)
    without = replace(whole, content=torch.zeros_like(whole.content))
    lost = Collaborative.of(ordinary, without)(states, states)
    assert (lost - wanted).abs().max() > 1e-2


def test_content_is_the_keys_projection_of_the_querys_bias():
    ordinary = plain()
    with torch.no_grad():
        ordinary.query.bias.copy_(drawn(WIDTH, seed=5))
    found = content_bias(ordinary.query, ordinary.key, HEADS)
    for head in range(HEADS):
        part = slice(head * 4, (head + 1) * 4)
        wanted = ordinary.key.weight[part].T @ ordinary.query.bias[part]
        torch.testing.assert_close(found[head], wanted)


@pytest.mark.parametrize("kind", [Collaborative, Narrow])
def test_a_causal_model_does_not_see_the_future_and_decodes_with_a_cache(kind):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 20, 0, 2, WIDTH, 16, HEADS, 0.0)).eval()
    for layer in model.decoder:
        layer.attention = kind(WIDTH, HEADS, 6)
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    other = torch.tensor([[5, 6, 7, 11, 12]])
    one, two = (model.decode(each, None, None) for each in (ids, other))
    torch.testing.assert_close(one[:, :3], two[:, :3])
    assert (one[:, 3:] - two[:, 3:]).abs().max() > 1e-3
    cache = model.empty_cache()
    steps = [model.decode(ids[:, at : at + 1], None, None, cache) for at in range(5)]
    torch.testing.assert_close(torch.cat(steps, 1), one, atol=1e-5, rtol=1e-5)


def test_cross_attention_with_content_uses_its_cache():
    block = Collaborative.of(plain(), some_factors())
    states, memory, cache = drawn(2, 4, WIDTH), drawn(2, 7, WIDTH, seed=9), KeyValues()
    wanted = block(states, memory)
    first = block(states[:, :1], memory, cache=cache)
    second = block(states[:, 1:], torch.zeros_like(memory), cache=cache)
    torch.testing.assert_close(torch.cat([first, second], 1), wanted)


def test_parameters_are_as_many_as_the_paper_counts():
    assert some_factors().parameters == (2 * WIDTH + HEADS) * DIMS
    block = Collaborative(WIDTH, HEADS, DIMS)
    own = [block.query.weight, block.key.weight, block.mixing]
    assert sum(each.numel() for each in own) == some_factors().parameters
    narrow = Narrow(WIDTH, HEADS, 6)
    assert narrow.query.weight.numel() + narrow.key.weight.numel() == 2 * WIDTH * 6
    assert narrow.value.weight.shape == (WIDTH, WIDTH)


def test_at_the_start_scores_are_spread_as_those_of_ordinary_heads():
    torch.manual_seed(0)
    states = torch.randn(1, 60, 128)
    spread = []
    for block in (Attention(128, 8, 0.0, AttentionPath.EXPLICIT), Collaborative(128, 8, 128)):
        for linear in (block.query, block.key):
            torch.nn.init.xavier_uniform_(linear.weight)
        key, _ = block._project(states)
        spread.append(float(block._scores(block._queries(states), key, None).detach().std()))
    assert spread[1] == pytest.approx(spread[0], rel=0.2)


@pytest.mark.parametrize("dims", [0, WIDTH + 1])
@pytest.mark.parametrize("kind", [Collaborative, Narrow])
def test_dimensions_that_cannot_be_projected_are_refused_in_one_line(kind, dims):
    with pytest.raises(UserError, match=f"{dims} query-key dimensions .* give 1 to {WIDTH}"):
        kind(WIDTH, HEADS, dims)


def test_ordinary_heads_need_a_multiple():
    with pytest.raises(UserError, match="3 heads cannot share out 5 dimensions"):
        Narrow(WIDTH, HEADS, 5)
