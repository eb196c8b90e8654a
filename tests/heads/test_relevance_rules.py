"""Every rule conserves relevance, agrees with cases worked by hand, and with autograd."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headbook.heads import relevance_rules
from headbook.heads.relevance_rules import (
    ConstantAttentionRules,
    Core,
    PositiveRules,
    Rules,
    SignedRules,
    Variant,
    rescaled,
    rules_of,
    stabilised,
)

NIL = 1e-12
EXACT = [SignedRules(NIL), PositiveRules(), ConstantAttentionRules(NIL)]
rules_with_all = pytest.mark.parametrize("rules", EXACT, ids=lambda rules: type(rules).__name__)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tensor(*rows: object) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def totals(relevance: Tensor) -> Tensor:
    """Of every sentence and prediction."""
    return relevance.flatten(2).sum(-1)


def assert_linear_conserves(rules: Rules) -> None:
    """Two sentences of three tokens with four predictions: 5 inputs, 7 outputs, no bias."""
    relevance = drawn(2, 4, 3, 7, seed=1).abs()
    found = rules.linear(drawn(2, 3, 5), drawn(7, 5, seed=2), None, relevance)
    torch.testing.assert_close(totals(found), totals(relevance))


def core(scores: Tensor, queries: Tensor, keys: Tensor, values: Tensor) -> Core:
    weights = scores.softmax(-1)
    return Core(queries, keys, values, scores, weights, weights @ values)


def random_core() -> Core:
    """Two sentences, three heads, four queries, five keys of which a query does not see some."""
    queries, keys, values = drawn(2, 3, 4, 6), drawn(2, 3, 5, 6, seed=1), drawn(2, 3, 5, 6, seed=2)
    hidden = torch.ones(4, 5, dtype=torch.bool).triu(2)
    scores = (queries * 6**-0.5 @ keys.transpose(-1, -2)).masked_fill(hidden, -torch.inf)
    return core(scores, queries, keys, values)


def shared(rules: Rules, seen: Core, relevance: Tensor) -> list[Tensor]:
    shares = rules.attention(seen, relevance)
    return [each for each in (shares.queries, shares.keys, shares.values) if each is not None]


def by_prediction(relevance: Tensor) -> Tensor:
    return totals(relevance.transpose(1, 2))


@rules_with_all
def test_the_linear_rule_conserves(rules: Rules):
    assert_linear_conserves(rules)


class WrongAxis(SignedRules):
    """The fault of the code of 2020: shares are normalised over the outputs, not the inputs."""

    def linear(self, inputs, weight, bias, relevance):
        terms = inputs[:, :, None] * weight  # [batch token outputs inputs]
        ratios = terms / stabilised(terms.sum(-2, keepdim=True), self.epsilon)
        return torch.einsum("btoi,bpto->bpti", ratios, relevance)


class PlainPositive(PositiveRules):
    """The code of 2019 without its rescaling."""

    def linear(self, inputs, weight, bias, relevance):
        return SignedRules(0.0).linear(inputs, weight.clamp(min=0), None, relevance).abs()


@pytest.mark.parametrize("faulty", [WrongAxis(NIL), PlainPositive(), SignedRules(0.5)])
def test_a_rule_that_does_not_conserve_is_seen(faulty: Rules):
    with pytest.raises(AssertionError):
        assert_linear_conserves(faulty)


def linear_by_hand(rules: Rules, bias: Tensor | None = None, inputs=(1, 2), relevance=(14, 3)):
    """Weights 1, 3 of the first output and 2, −1/2 of the second."""
    weight = tensor([1, 3], [2, -0.5])
    found = rules.linear(tensor([inputs]), weight, bias, tensor([[relevance]]))
    return found.flatten()


def test_the_signed_linear_rule_by_hand():
    # sums: 1·1 + 3·2 = 7 and 2·1 − ½·2 = 1
    # first input: 1/7 · 14 + 2/1 · 3 = 8; second: 6/7 · 14 − 1/1 · 3 = 9; together 17 = 14 + 3
    expected = tensor(8, 9)
    torch.testing.assert_close(linear_by_hand(SignedRules(NIL)), expected)
    # the bias is left out of the sum
    torch.testing.assert_close(linear_by_hand(SignedRules(NIL), tensor(7, 1)), expected)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(linear_by_hand(WrongAxis(NIL)), expected)


def test_the_bias_absorbs_its_share_where_attention_is_constant_by_hand():
    # sums with biases 7 and 1: 14 and 2
    # first: 1/14 · 14 + 2/2 · 3 = 4; second: 6/14 · 14 − 1/2 · 3 = 4.5; biases: 7 + 1.5 = 8.5
    found = linear_by_hand(ConstantAttentionRules(NIL), tensor(7, 1))
    torch.testing.assert_close(found, tensor(4, 4.5))


def test_the_positive_linear_rule_by_hand():
    # weights 1, 3 and 2, ε; sums 7 and 2: 1/7 · 14 + 2/2 · 3 = 5 and 6/7 · 14 = 12
    rules = PositiveRules()
    torch.testing.assert_close(linear_by_hand(rules), tensor(5, 12), rtol=1e-5, atol=0)
    # inputs 1, −2: sums −5 and 2; −1/5 · 10 + 2/2 · 1 = −1 and 6/5 · 10 = 12; sizes 13, wanted 11
    found = linear_by_hand(rules, inputs=(1, -2), relevance=(10, 1))
    torch.testing.assert_close(found, tensor(11 / 13, 132 / 13), rtol=1e-5, atol=0)


def test_a_stabiliser_keeps_the_sign_and_takes_its_share():
    torch.testing.assert_close(stabilised(tensor(3, -3, 0), 1.0), tensor(4, -4, 1))
    # sums 7 and 1 with ε 1: 1/8 · 14 + 2/2 · 3 = 4.75; 6/8 · 14 − 1/2 · 3 = 9
    torch.testing.assert_close(linear_by_hand(SignedRules(1.0)), tensor(4.75, 9))


@rules_with_all
def test_the_logit_rule_is_the_linear_rule_from_one_hot_relevance(rules: Rules):
    inputs, weight = drawn(2, 3, 5), drawn(7, 5, seed=2)
    chosen = torch.tensor([[0, 6, 2], [3, 3, 1]])
    hot = torch.nn.functional.one_hot(chosen, 7).double()
    # Every token is a prediction of its own, with relevance at its own place only.
    relevance = torch.eye(3, dtype=torch.float64)[None, :, :, None] * hot[:, :, None]
    expected = rules.linear(inputs, weight, None, relevance).sum(2)
    found = rules.logit(inputs, weight[chosen])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 3, dtype=torch.float64))


@rules_with_all
def test_the_residual_rule_conserves(rules: Rules):
    relevance = drawn(2, 4, 3, 5, seed=1).abs()
    skip, added = rules.residual(drawn(2, 3, 5), drawn(2, 3, 5, seed=2), relevance)
    torch.testing.assert_close(totals(skip) + totals(added), totals(relevance))


def test_the_residual_rules_by_hand():
    def parts(rules: Rules) -> tuple[Tensor, Tensor]:
        return rules.residual(tensor([[3, 1]]), tensor([[1, -3]]), tensor([[[8, 4]]]))

    # sums 4 and −2: 3/4 · 8 = 6, 1/−2 · 4 = −2; 1/4 · 8 = 2, −3/−2 · 4 = 6
    torch.testing.assert_close(torch.cat(parts(SignedRules(NIL))).flatten(), tensor(6, -2, 2, 6))
    # sizes 6 + 2 + 2 + 6 = 16, wanted 12
    found = torch.cat(parts(PositiveRules())).flatten()
    torch.testing.assert_close(found, tensor(4.5, 1.5, 1.5, 4.5), rtol=1e-6, atol=0)


@rules_with_all
def test_the_attention_rule_conserves(rules: Rules):
    relevance = drawn(2, 3, 7, 4, 6, seed=5).abs()
    parts = shared(rules, random_core(), relevance)
    total = sum(by_prediction(part) for part in parts)
    torch.testing.assert_close(total, by_prediction(relevance))


@rules_with_all
def test_what_a_query_does_not_see_gets_nothing(rules: Rules):
    seen = random_core()
    relevance = drawn(2, 3, 7, 4, 6, seed=5).abs()
    relevance[:, :, :, 1:] = 0  # the first query sees the first two keys
    for part in shared(rules, seen, relevance)[-2:]:
        assert part[:, :, :, 2:].abs().max() == 0 < part[:, :, :, :2].abs().min()


def two_by_two() -> Core:
    """One head of one dimension: weights ½, ½ and ¼, ¾; values 2 and 4; so contexts 3 and 3½."""
    weights = tensor([0.5, 0.5], [0.25, 0.75])[None, None]
    queries, keys, values = (
        tensor([one], [two])[None, None] for one, two in ((1, 5), (3, 7), (2, 4))
    )
    scores = queries @ keys.transpose(-1, -2)
    return Core(queries, keys, values, scores, weights, weights @ values)


def test_attention_by_hand():
    # terms of the first query: 1 of 3 and 2 of 3; of the second: ½ of 3½ and 3 of 3½
    # with relevance 3 and 7 at the queries these get 1, 2 and 1, 6
    relevance = tensor([3], [7])[None, None, None]
    constant = ConstantAttentionRules(NIL).attention(two_by_two(), relevance)
    assert constant.queries is None and constant.keys is None
    torch.testing.assert_close(constant.values.flatten(), tensor(2, 8))
    # half to the values; a quarter of 1 + 2 and 1 + 6 to queries, of 1 + 1 and 2 + 6 to keys
    signed = [each.flatten() for each in shared(SignedRules(NIL), two_by_two(), relevance)]
    torch.testing.assert_close(torch.stack(signed), tensor([0.75, 1.75], [0.5, 2], [1, 4]))


def test_attention_through_softmax_by_hand():
    # one query 2, keys 1 and 1: weights ½; values 2, 4: context 3; relevance 3, so the ratio is 1
    # values: ½ · 2 = 1, ½ · 4 = 2; of the weights: 2, 4; of the scores: ½ (2 − 3), ½ (4 − 3)
    # query: 2 · (−½ + ½) = 0; keys: −½ · 2 · 1 = −1 and 1; sizes 0 + 2 + 3 = 5, wanted 3
    queries, keys, values = tensor([2]), tensor([1], [1]), tensor([2], [4])
    parts = (each[None, None] for each in (queries @ keys.T, queries, keys, values))
    found = shared(PositiveRules(), core(*parts), tensor([3])[None, None, None])
    expected = tensor(0, 0.6, 0.6, 0.6, 1.2)
    torch.testing.assert_close(torch.cat(found, 3).flatten(), expected, rtol=0, atol=1e-6)


def test_attention_of_2019_is_input_times_gradient():
    seen, epsilon = random_core(), 1e-10
    relevance = drawn(2, 3, 4, 6, seed=5).abs()
    inputs = [(each + epsilon).requires_grad_() for each in (seen.queries, seen.keys, seen.values)]
    scores = (inputs[0] * 6**-0.5) @ inputs[1].transpose(-1, -2)
    context = scores.masked_fill(seen.scores.isinf(), -torch.inf).softmax(-1) @ inputs[2]
    gradients = torch.autograd.grad(context, inputs, relevance / context)
    sizes = [(each * slope).detach().abs() for each, slope in zip(inputs, gradients, strict=True)]
    found = shared(PositiveRules(epsilon), seen, relevance[:, :, None])
    factor = relevance.sum((1, 2, 3)) / sum(size.sum((1, 2, 3)) for size in sizes)
    for part, size in zip(found, sizes, strict=True):
        expected = size * factor[:, None, None, None]
        torch.testing.assert_close(part[:, :, 0], expected, rtol=1e-5, atol=1e-6)


def test_every_sentence_and_prediction_is_rescaled_by_itself():
    # sizes 4 + 4 where 1 is wanted, 1 + 3 where 2 is, 5 where 3 is, and nothing
    incoming = tensor(1, 2, 3, 0).view(2, 2, 1, 1)
    parts = [tensor(*each).view(2, 2, 1, 1) for each in ((4, -1, 0, 0), (-4, 3, 5, 0))]
    one, other = rescaled(incoming, *parts)
    assert one.flatten().tolist() == [0.5, 0.5, 0.0, 0.0]
    assert other.flatten().tolist() == [0.5, 1.5, 3.0, 0.0]


CHAINS: list[Callable[[Tensor], Tensor]] = [torch.relu, lambda states: states]


@pytest.mark.parametrize("rules", EXACT[::2], ids=["signed", "constant"])
@pytest.mark.parametrize("activation", CHAINS, ids=["relu", "linear"])
def test_a_chain_of_layers_is_input_times_gradient(rules: Rules, activation: Callable):
    """Without biases the weight ratio is linear in the input: r_u = u · ∂y/∂u of every logit."""
    first, second = drawn(8, 5, seed=1), drawn(3, 8, seed=2)
    inputs = drawn(1, 1, 5).requires_grad_()
    hidden = activation(inputs @ first.T)
    logits = (hidden @ second.T).flatten()
    slopes = torch.stack(
        [torch.autograd.grad(each, inputs, retain_graph=True)[0] for each in logits]
    )
    with torch.no_grad():
        start = torch.diag(logits)[None, :, None]
        between = rules.linear(hidden, second, None, start)
        found = rules.linear(inputs, first, None, between)
        torch.testing.assert_close(found[0, :, 0], (inputs * slopes)[:, 0, 0])


def test_nothing_comes_of_nothing():
    """Values that cancel, closed gates and rows of padding leave no NaN."""
    for rules in map(rules_of, Variant):
        zeros = torch.zeros(1, 2, 3)
        found = rules.linear(zeros, torch.zeros(3, 3), torch.zeros(3), torch.zeros(1, 1, 2, 3))
        assert found.abs().max() == 0
        parts = rules.residual(zeros, zeros, torch.zeros(1, 1, 2, 3))
        assert max(part.abs().max() for part in parts) == 0
        flat = replace(two_by_two(), context=torch.zeros(1, 1, 2, 1).double())
        parts = shared(rules, flat, torch.zeros(1, 1, 1, 2, 1).double())
        assert max(part.abs().max() for part in parts) == 0


def test_every_variant_has_its_rules():
    kinds = {variant: type(rules_of(variant)) for variant in Variant}
    assert kinds == {
        Variant.SIGNED: SignedRules,
        Variant.CODE_2019: PositiveRules,
        Variant.CONSTANT_ATTENTION: ConstantAttentionRules,
    }
    assert relevance_rules.EPSILON_2019 == 1e-7
