"""Relevance through a recurrent student: conserved, and equal to input times gradient."""

import pytest
import torch
from blocks import for_student
from held import hold, shares

from headbook.heads.relevance import Relevances, Translator, relevances
from headbook.heads.relevance_rules import ConstantAttentionRules, PositiveRules, Rules, SignedRules
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


def relevance(network: Student, batch: Batch, rules: Rules) -> Relevances:
    return relevances(
        Translator(network, network.states, network.target.tokens.weight), batch, rules
    )


@pytest.mark.parametrize("rules", [SignedRules(NIL), ConstantAttentionRules(NIL), PositiveRules()])
def test_relevance_is_conserved_where_there_are_no_biases(rules) -> None:
    network, batch = student(biases=False), for_student(((4, 3), (9, 7), (2, 1), (33, 20)), 11)
    found = relevance(network, batch, rules)
    decoder, encoder = (
        found.conserved[kind][found.counted] for kind in (Kind.DECODER, Kind.ENCODER)
    )
    ones = torch.ones_like(decoder[:, 1:])
    torch.testing.assert_close(decoder[:, 1:], ones, rtol=1e-5, atol=1e-5)
    # A norm of nothing makes numbers at the first position, whose relevance has nowhere to go.
    bottom = decoder[:, :1].expand_as(encoder)
    torch.testing.assert_close(encoder, bottom, rtol=1e-5, atol=1e-5)


def test_heads_get_value_times_gradient_with_gates_held_constant() -> None:
    """Independent: autograd through a pass in which everything the rule holds constant is so."""
    network, batch = student(), for_student(((5, 4),), 11)
    found = relevance(network, batch, ConstantAttentionRules(NIL))
    contexts = hold(network)
    logits, top = network(batch)[0].max(-1)
    for kind, own in contexts.items():
        # The start rule shares the logit without its bias.
        expected = shares(logits - network.bias[top], own)
        torch.testing.assert_close(found.heads[kind][0], expected, rtol=1e-5, atol=1e-7)
