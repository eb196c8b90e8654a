"""Every rule conserves relevance, agrees with cases worked by hand, and with autograd."""

import pytest
import torch
from blocks import drawn
from torch import Tensor

from headbook.heads.relevance_rules import (
    ConstantAttentionRules,
    Core,
    PositiveRules,
    Rules,
    SignedRules,
)

NIL = 1e-12
EXACT = [SignedRules(NIL), PositiveRules(), ConstantAttentionRules(NIL)]
rules_with_all = pytest.mark.parametrize("rules", EXACT, ids=lambda rules: type(rules).__name__)


def tensor(*rows: object) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def core(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None = None) -> Core:
    scores = queries * queries.shape[-1] ** -0.5 @ keys.mT
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    weights = scores.softmax(-1)
    return Core(queries, keys, values, scores, weights, weights @ values)


def random_core() -> Core:
    """Two sentences, three heads, four queries, five keys of which a query does not see some."""
    sides = drawn(2, 3, 4, 6), drawn(2, 3, 5, 6, seed=1), drawn(2, 3, 5, 6, seed=2)
    return core(*sides, torch.ones(4, 5, dtype=torch.bool).triu(2))


def shared(rules: Rules, seen: Core, relevance: Tensor) -> list[Tensor]:
    return [each for each in rules.attention(seen, relevance) if each is not None]


def test_linear_rules_by_hand():
    def found(rules: Rules, inputs=(1, 2), relevance=(14, 3)) -> Tensor:
        """Weights 1, 3 of the first output and 2, −1/2 of the second; biases 7 and 1."""
        weight = tensor([1, 3], [2, -0.5])
        return rules.linear(tensor([inputs]), weight, tensor(7, 1), tensor([[relevance]])).flatten()

    # sums without biases: 1·1 + 3·2 = 7 and 2·1 − ½·2 = 1
    # with ε 1: 1/8 · 14 + 2/2 · 3 = 4.75; 6/8 · 14 − 1/2 · 3 = 9
    torch.testing.assert_close(found(SignedRules(1.0)), tensor(4.75, 9))
    # weights 1, 3 and 2, ε; sums 7 and 2: 1/7 · 14 + 2/2 · 3 = 5 and 6/7 · 14 = 12
    torch.testing.assert_close(found(PositiveRules()), tensor(5, 12), rtol=1e-5, atol=0)
    # inputs 1, −2: sums −5 and 2; −1/5 · 10 + 2/2 · 1 = −1 and 6/5 · 10 = 12; sizes 13, wanted 11
    signs = found(PositiveRules(), (1, -2), (10, 1))
    torch.testing.assert_close(signs, tensor(11 / 13, 132 / 13), rtol=1e-5, atol=0)


@rules_with_all
def test_the_logit_rule_is_the_linear_rule_from_one_hot_relevance(rules: Rules):
    inputs, weight = drawn(2, 3, 5), drawn(7, 5, seed=2)
    chosen = torch.tensor([[0, 6, 2], [3, 3, 1]])
    hot = torch.nn.functional.one_hot(chosen, 7).double()
    # Every token is a prediction of its own, with relevance at its own place only.
    relevance = torch.eye(3, dtype=torch.float64)[None, :, :, None] * hot[:, :, None]
    expected = rules.linear(inputs, weight, None, relevance).sum(2)
    torch.testing.assert_close(rules.logit(inputs, weight[chosen]), expected)


def test_the_residual_rule_of_2019_by_hand():
    found = PositiveRules().residual(tensor([[3, 1]]), tensor([[1, -3]]), tensor([[[8, 4]]]))
    # sums 4 and −2: 3/4 · 8 = 6, 1/−2 · 4 = −2; 1/4 · 8 = 2, −3/−2 · 4 = 6
    # sizes 6 + 2 + 2 + 6 = 16, wanted 12
    torch.testing.assert_close(torch.cat(found).flatten(), tensor(4.5, 1.5, 1.5, 4.5))


def test_attention_of_2019_is_input_times_gradient():
    seen, epsilon = random_core(), 1e-10
    relevance = drawn(2, 3, 4, 6, seed=5).abs()
    inputs = [(each + epsilon).requires_grad_() for each in seen[:3]]
    context = core(*inputs, seen.scores.isinf()).context
    gradients = torch.autograd.grad(context, inputs, relevance / context)
    sizes = [(each * slope).detach().abs() for each, slope in zip(inputs, gradients, strict=True)]
    found = shared(PositiveRules(epsilon), seen, relevance[:, :, None])
    factor = relevance.sum((1, 2, 3)) / sum(size.sum((1, 2, 3)) for size in sizes)
    for part, size in zip(found, sizes, strict=True):
        expected = size * factor[:, None, None, None]
        torch.testing.assert_close(part[:, :, 0], expected, rtol=1e-5, atol=1e-6)
