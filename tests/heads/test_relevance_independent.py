"""Relevance against two independent implementations, both by autograd.

Signed and constant-attention relevance is input times gradient of a forward pass in which
everything the rules hold constant is detached. That of 2019 is its code, written anew: one sentence
and one prediction, each rule by the gradient of the layer's function, rescaled over all there is.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from headbook.heads.relevance import relevances
from headbook.heads.relevance_pass import AttentionStep, Step, forward_pass
from headbook.heads.relevance_rules import ConstantAttentionRules, PositiveRules, SignedRules
from headbook.models.attention import Attention
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, UNK, Batch, collate
from headbook.types import Kind

VOCABULARY, HEADS, EPSILON = 11, 2, 1e-7


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(VOCABULARY, VOCABULARY, 2, 2, 8, 12, HEADS, dropout=0.0)
    model = Transformer(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def sentence(length: int, generator: torch.Generator) -> list[int]:
    return [*torch.randint(UNK, VOCABULARY, (length - 1,), generator=generator).tolist(), EOS]


@pytest.fixture(scope="module")
def one() -> Batch:
    generator = torch.Generator().manual_seed(0)
    return collate([(sentence(4, generator), sentence(3, generator))], [0])


def held(values: Tensor, parts: Tensor) -> Tensor:
    """The values, which are the parts times a constant; of parts that are 0 they are constants."""
    nil = parts == 0
    ratio = (values / parts.masked_fill(nil, 1.0)).detach()
    return torch.where(nil, values.detach(), parts * ratio)


class Held:
    """The forward pass with what the rules hold constant detached; keeps the heads' outputs."""

    def __init__(self, model: Transformer, constant: bool) -> None:
        self.model, self.constant = model, constant
        self.contexts: dict[Kind, list[Tensor]] = {kind: [] for kind in Kind}

    def linear(self, layer: torch.nn.Linear, inputs: Tensor) -> Tensor:
        whole = layer(inputs)
        # The signed rule leaves the bias out of the sum, the ε-rule counts it as a constant term.
        return whole if self.constant else held(whole, linear(inputs, layer.weight))

    def product(self, one: Tensor, other: Tensor) -> Tensor:
        """A product of which each factor gets half."""
        return (one * other.detach() + one.detach() * other) / 2

    def attention(self, kind: Kind, block: Attention, inputs: Tensor, memory: Tensor) -> Tensor:
        query, key, value = (
            self.linear(layer, each).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for layer, each in ((block.query, inputs), (block.key, memory), (block.value, memory))
        )
        scores = self.product(query[..., :, None, :], key[..., None, :, :]).sum(-1)
        scores = scores * query.shape[-1] ** -0.5
        hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool)
        if kind is Kind.DECODER:
            hidden = torch.ones_like(hidden).triu(1)
        weights = held(scores.masked_fill(hidden, -torch.inf).softmax(-1), scores)
        if self.constant:
            context = weights.detach() @ value
        else:
            context = self.product(weights[..., None], value[..., None, :, :]).sum(-2)
        self.contexts[kind].append(context)
        return self.linear(block.output, context.transpose(1, 2).flatten(2))

    def fed(self, layer: torch.nn.Module, states: Tensor) -> Tensor:
        inner = self.linear(
            layer.feed_forward.inner, self.normed(layer.around_feed_forward, states)
        )
        return states + self.linear(layer.feed_forward.outer, inner * (inner > 0).detach())

    def normed(self, around: torch.nn.Module, states: Tensor) -> Tensor:
        return held(around.norm(states), states)

    def logits(self, batch: Batch) -> Tensor:
        states = self.model.source(batch.source)
        for layer in self.model.encoder:
            normed = self.normed(layer.around_attention, states)
            states = states + self.attention(Kind.ENCODER, layer.attention, normed, normed)
            states = self.fed(layer, states)
        memory = held(self.model.encoder_norm(states), states)
        states = self.model.target(batch.target_in)
        for layer in self.model.decoder:
            normed = self.normed(layer.around_attention, states)
            states = states + self.attention(Kind.DECODER, layer.attention, normed, normed)
            normed = self.normed(layer.around_cross, states)
            states = states + self.attention(Kind.CROSS, layer.cross, normed, memory)
            states = self.fed(layer, states)
        return self.model.logits(held(self.model.decoder_norm(states), states))


@pytest.mark.parametrize("constant", [True, False], ids=["constant-attention", "signed"])
def test_signed_relevance_is_input_times_gradient(model: Transformer, one: Batch, constant: bool):
    passed = Held(model, constant)
    logits = passed.logits(one)
    torch.testing.assert_close(logits, model(one))
    rules = (ConstantAttentionRules if constant else SignedRules)(1e-15)
    found = relevances(model, one, rules).heads
    for position, logit in enumerate(logits[0].amax(-1)):
        for kind, contexts in passed.contexts.items():
            slopes = torch.autograd.grad(logit, contexts, retain_graph=True)
            terms = [each * slope for each, slope in zip(contexts, slopes, strict=True)]
            expected = torch.stack([each[0].sum((-1, -2)) for each in terms]).detach() / logit
            torch.testing.assert_close(
                found[kind][0, position], expected.detach(), rtol=1e-6, atol=1e-8
            )


def relprop(function: Callable, relevance: Tensor, *inputs: Tensor) -> list[Tensor]:
    """The rule of 2019: shift, z+ by gradient, absolute value, rescale over everything."""
    shifted = [(each + EPSILON).detach().requires_grad_() for each in inputs]
    with torch.enable_grad():
        outputs = function(*shifted)
    slopes = torch.autograd.grad(outputs, shifted, relevance / outputs.detach())
    return rescale(
        relevance, *(x.detach() * slope for x, slope in zip(shifted, slopes, strict=True))
    )


def rescale(reference: Tensor, *parts: Tensor) -> list[Tensor]:
    total = sum(part.abs().sum() for part in parts)
    return [part.abs() * (reference.sum() / total) for part in parts]


def dense(weight: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda inputs: inputs @ weight.clamp(min=EPSILON).T


class Code2019:
    """Back through the steps of one sentence, one prediction at a time."""

    def __init__(self) -> None:
        self.heads: dict[str, list[Tensor]] = {kind: [] for kind in Kind}

    def step(self, kind: str, step: Step, relevance: Tensor) -> tuple[Tensor, Tensor | float]:
        skip, added = relprop(torch.add, relevance, step.skip, step.added)
        if not isinstance(step, AttentionStep):
            (hidden,) = relprop(dense(step.block.outer.weight), added, step.hidden)
            (inputs,) = relprop(dense(step.block.inner.weight), hidden, step.inputs)
            return skip + inputs, 0.0
        (arrived,) = relprop(dense(step.block.output.weight), added, step.gated)
        by_head = arrived.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        self.heads[kind].append(by_head.sum((0, 2, 3)))
        block, core = step.block, step.core

        def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            scores = query @ key.transpose(-1, -2) * core.scale
            return scores.masked_fill(core.scores.isinf(), -torch.inf).softmax(-1) @ value

        shares = relprop(function, by_head, core.queries, core.keys, core.values)
        query, key, value = (each.transpose(1, 2).flatten(2) for each in shares)
        weights = [layer.weight for layer in (block.query, block.key, block.value)]
        if step.memory is None:
            joined = torch.cat([query, key, value], -1)
            (inputs,) = relprop(dense(torch.cat(weights)), joined, step.inputs)
            return skip + inputs, 0.0
        joined = torch.cat([key, value], -1)
        (memory,) = relprop(dense(torch.cat(weights[1:])), joined, step.memory)
        (inputs,) = relprop(dense(weights[0]), query, step.inputs)
        return skip + inputs, memory


@torch.no_grad()
def test_relevance_of_2019_is_what_its_code_gives(model: Transformer, one: Batch):
    passed = forward_pass(model, one)
    found = relevances(model, one, PositiveRules(EPSILON)).heads
    for position in range(one.target_in.shape[1]):
        code = Code2019()
        hot = torch.zeros_like(passed.logits)
        hot[0, position, passed.predicted[0, position]] = 1
        (relevance,) = relprop(dense(model.logits.weight), hot, passed.output)
        memory = 0.0
        for steps in reversed(passed.decoder):
            for kind, step in zip(("", Kind.CROSS, Kind.DECODER), reversed(steps), strict=True):
                relevance, reached = code.step(kind, step, relevance)
                memory = memory + reached
        for own, fed in reversed(passed.encoder):
            memory, _ = code.step("", fed, memory)
            memory, _ = code.step(Kind.ENCODER, own, memory)
        for kind, layers in code.heads.items():
            expected = torch.stack(layers[::-1])
            torch.testing.assert_close(found[kind][0, position], expected, rtol=1e-4, atol=1e-7)
