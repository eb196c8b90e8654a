"""Relevance through a recurrent student: conserved, and equal to input times gradient."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from headbook.heads.relevance import Relevances, Translator, relevances
from headbook.heads.relevance_rules import ConstantAttentionRules, PositiveRules, Rules, SignedRules
from headbook.released.firefox import EOS, batches_of
from headbook.released.student import Shape, Student
from headbook.text.batches import Batch
from headbook.types import Kind

NIL = 1e-12
SHAPE = Shape(2, 3, 8, 2, 12, 12, 11, 11, shared=True)


def student(biases: bool = True) -> Student:
    torch.manual_seed(4)
    network = Student(SHAPE).double().eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
            if not biases and name.endswith("bias") and "norm" not in name:
                parameter.zero_()
    return network


def batch_of(*lengths: tuple[int, int]) -> Batch:
    generator = torch.Generator().manual_seed(0)

    def ids(length: int) -> list[int]:
        return [*torch.randint(1, 11, (length - 1,), generator=generator).tolist(), EOS]

    pairs = [(ids(source), ids(target)) for source, target in lengths]
    (batch,) = batches_of(*zip(*pairs, strict=True), 10_000)
    return batch


def relevance(network: Student, batch: Batch, rules: Rules) -> Relevances:
    return relevances(Translator(network, network.states, network.target.weight), batch, rules)


@pytest.mark.parametrize("rules", [SignedRules(NIL), ConstantAttentionRules(NIL)])
def test_relevance_is_conserved_where_there_are_no_biases(rules) -> None:
    network, batch = student(biases=False), batch_of((4, 3), (9, 7), (2, 1), (33, 20))
    found = relevance(network, batch, rules)
    decoder, encoder = (
        found.conserved[kind][found.counted] for kind in (Kind.DECODER, Kind.ENCODER)
    )
    ones = torch.ones_like(decoder[:, 1:])
    torch.testing.assert_close(decoder[:, 1:], ones, rtol=1e-5, atol=1e-5)
    # At the first position half of what the decoder reads is exactly 0 (the start is the zero
    # vector and sin 0 = 0), and so is what the recurrence adds where a cell is below 0: the norm
    # makes numbers of nothing there, whose relevance has nowhere to go. Nothing else is lost.
    bottom = decoder[:, :1].expand_as(encoder)
    torch.testing.assert_close(encoder, bottom, rtol=1e-5, atol=1e-5)


def test_heads_get_value_times_gradient_with_gates_held_constant() -> None:
    """Independent: autograd through a pass in which everything the rule holds constant is so."""
    network, batch = student(), batch_of((5, 4))
    found = relevance(network, batch, ConstantAttentionRules(NIL))
    logits, contexts = held_pass(network, batch)
    for position in range(4):
        top = logits[0, position].argmax()
        # The start rule shares the logit without its bias.
        start = logits[0, position, top] - network.bias[top]
        gradients = torch.autograd.grad(start, contexts[Kind.ENCODER], retain_graph=True)
        for layer, (context, gradient) in enumerate(
            zip(contexts[Kind.ENCODER], gradients, strict=True)
        ):
            expected = (context * gradient).sum((-1, -2))[0] / start
            torch.testing.assert_close(
                found.heads[Kind.ENCODER][0, position, layer], expected.detach(),
                rtol=1e-5, atol=1e-7,
            )  # fmt: skip


def held(values: Tensor, parts: Tensor) -> Tensor:
    """The values as the parts times a constant; of parts that are 0 they are constants."""
    nil = parts == 0
    ratio = (values / parts.masked_fill(nil, 1.0)).detach()
    return torch.where(nil, values.detach(), parts * ratio)


def held_pass(network: Student, batch: Batch) -> tuple[Tensor, dict[Kind, list[Tensor]]]:
    contexts: dict[Kind, list[Tensor]] = {Kind.ENCODER: [], Kind.CROSS: []}

    def attention(kind: Kind, block, states: Tensor, memory: Tensor) -> Tensor:
        query, key, value = (
            layer(each).unflatten(-1, (2, -1)).transpose(1, 2)
            for layer, each in ((block.query, states), (block.key, memory), (block.value, memory))
        )
        weights = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1).detach()
        context = weights @ value
        contexts[kind].append(context)
        return block.output(context.transpose(1, 2).flatten(2))

    def norm(layer, states: Tensor) -> Tensor:
        return held(layer(states), states)

    def feed_forward(block, states: Tensor) -> Tensor:
        inner = block.first(states)
        return block.second(inner * (inner > 0))

    states = network.embedded_source(batch.source)
    for layer in network.encoder:
        states = norm(
            layer.attention_norm, states + attention(Kind.ENCODER, layer.attention, states, states)
        )
        states = norm(layer.feed_forward_norm, states + feed_forward(layer.feed_forward, states))
    memory, states = states, network.embedded_target(batch.target_in)
    for layer in network.decoder:
        forget = layer.recurrence.forget(states).sigmoid().detach()
        candidates = linear(states, layer.recurrence.candidate.weight)
        cells, cell = [], torch.zeros_like(candidates[:, 0])
        for time in range(candidates.shape[1]):
            cell = forget[:, time] * cell + (1 - forget[:, time]) * candidates[:, time]
            cells.append(cell)
        stacked = torch.stack(cells, dim=1)
        states = norm(layer.recurrence_norm, states + stacked * (stacked > 0))
        states = norm(layer.cross_norm, states + attention(Kind.CROSS, layer.cross, states, memory))
        states = norm(layer.feed_forward_norm, states + feed_forward(layer.feed_forward, states))
    return network.logits(states), contexts


def test_the_rules_of_2019_lose_nothing_in_any_layer() -> None:
    network, batch = student(), batch_of((4, 3), (9, 7), (33, 12))
    found = relevance(network, batch, PositiveRules())
    for layers in found.conserved.values():
        kept = layers[found.counted]
        torch.testing.assert_close(kept, torch.ones_like(kept), rtol=1e-4, atol=1e-4)
    assert all(bool((heads >= 0).all()) for heads in found.heads.values())
