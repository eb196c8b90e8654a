"""Importance by gradient: against real multipliers, by brute force, and where it is known."""

from collections.abc import Iterator, Sequence

import pytest
import torch
from torch import nn
from torch.nn import functional

from headbook.heads.importance import Form, contributions, importance, l2_normalised, products_of
from headbook.models.gates import close_heads
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, PAD, Batch, collate
from headbook.types import HeadId, Kind

WORDS, LAYERS, HEADS, WIDTH = 14, 2, 4, 16
SOURCES, TARGETS = (3, 9, 5, 5, 2), (6, 2, 5, 4, 8)


def transformer(dropout: float = 0.0) -> Transformer:
    torch.manual_seed(1)
    shape = {"width": WIDTH, "feed_forward": 24, "heads": HEADS, "dropout": dropout}
    model = Transformer(TransformerConfig(WORDS, WORDS, LAYERS, LAYERS, **shape)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


@pytest.fixture
def model() -> Transformer:
    return transformer()


@pytest.fixture(scope="module")
def pairs() -> list[tuple[list[int], list[int]]]:
    generator = torch.Generator().manual_seed(2)

    def sentence(length: int) -> list[int]:
        return [*torch.randint(3, WORDS, (length,), generator=generator).tolist(), EOS]

    return [(sentence(one), sentence(two)) for one, two in zip(SOURCES, TARGETS, strict=True)]


def batch_of(pairs: Sequence, sentences: Sequence[int], extra: int = 0) -> Batch:
    batch = collate([pairs[sentence] for sentence in sentences], sentences)
    sides = ("source", "target_in", "target_out")
    wider = {name: functional.pad(getattr(batch, name), (0, extra)) for name in sides}
    return Batch(**wider, sentences=batch.sentences)


def alone(pairs: Sequence) -> Iterator[Batch]:
    return (batch_of(pairs, [sentence]) for sentence in range(len(pairs)))


class Multiplier(nn.Module):
    """ξ of Michel et al., one a head, that a gradient can be taken of."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.ones(HEADS, dtype=torch.float64))

    def forward(self) -> torch.Tensor:
        return self.values


def loss_of(model: Transformer, batch: Batch) -> torch.Tensor:
    chances = model(batch).log_softmax(-1).gather(-1, batch.target_out[..., None]).squeeze(-1)
    return -(chances * (batch.target_out != PAD)).sum()


def test_the_sentence_form_is_the_gradient_of_a_multiplier(model: Transformer, pairs: list):
    found = importance(model, [batch_of(pairs, range(len(pairs)))])
    blocks = list(model.attentions())
    for _, _, block in blocks:
        block.gate = Multiplier()
    total = {kind: torch.zeros(LAYERS, HEADS, dtype=torch.float64) for kind in Kind}
    for batch in alone(pairs):
        values = [block.gate.values for _, _, block in blocks]
        gradients = torch.autograd.grad(loss_of(model.eval(), batch), values)
        for (kind, layer, _), gradient in zip(blocks, gradients, strict=True):
            total[kind][layer] += gradient.abs()
    for kind in Kind:
        expected = total[kind] / len(pairs)
        torch.testing.assert_close(found[f"sentence/{kind}"].ratio(), expected)


def at_every_position(model: Transformer, batch: Batch, block: nn.Module, queries: int):
    """|∂L/∂ξ| for a ξ of each position and head of one block, by a hook before W_O."""
    values = torch.ones(queries, HEADS, dtype=torch.float64, requires_grad=True)

    def multiply(_, inputs: tuple) -> torch.Tensor:
        return inputs[0] * values.repeat_interleave(WIDTH // HEADS, dim=1)

    handle = block.output.register_forward_pre_hook(multiply)
    (gradient,) = torch.autograd.grad(loss_of(model.eval(), batch), values)
    handle.remove()
    return gradient.abs()


def test_the_position_form_by_brute_force(model: Transformer, pairs: list):
    found = importance(model, [batch_of(pairs, range(len(pairs)))])
    for kind, layer, block in model.attentions():
        tokens, total = 0, torch.zeros(HEADS, dtype=torch.float64)
        for batch, pair in zip(alone(pairs), pairs, strict=True):
            queries = len(pair[0] if kind is Kind.ENCODER else pair[1])
            total += at_every_position(model, batch, block, queries).sum(0)
            tokens += queries
        torch.testing.assert_close(found[f"position/{kind}"].ratio()[layer], total / tokens)


def test_batching_and_padding_change_nothing(model: Transformer, pairs: list):
    one_by_one = importance(model, alone(pairs))
    for batches in (
        [batch_of(pairs, range(5))],
        [batch_of(pairs, [3, 0]), batch_of(pairs, [4, 1, 2])],
        [batch_of(pairs, range(5), extra=3)],
    ):
        found = importance(model, batches)
        for name, sums in one_by_one.items():
            torch.testing.assert_close(found[name].numerator, sums.numerator)
            torch.testing.assert_close(found[name].denominator, sums.denominator)


def test_a_padded_position_counts_nothing_whatever_its_gradient():
    context = torch.ones(1, 2, 3, 4)
    gradient = torch.ones(1, 2, 3, 4)
    context[0, :, 2], gradient[0, :, 2] = torch.inf, torch.nan
    real = torch.tensor([[True, True, False]])
    assert products_of(context, gradient, real).tolist() == [[[4, 4, 0], [4, 4, 0]]]


def test_each_form_divides_by_what_it_counts(model: Transformer, pairs: list):
    sums = importance(model, [batch_of(pairs, range(5), extra=2)], replicates=3)
    whole = {name: float(each.denominator.sum(0)[0]) for name, each in sums.items()}
    tokens = {"encoder": sum(SOURCES) + 5, "decoder": sum(TARGETS) + 5, "cross": sum(TARGETS) + 5}
    expected = {f"position/{kind}": count for kind, count in tokens.items()}
    assert whole == expected | {f"sentence/{kind}": 5 for kind in Kind}
    assert sums["position/cross"].ratio().shape == (LAYERS, HEADS)
    assert sums["position/cross"].replicates().shape == (4, LAYERS, HEADS)


def test_the_absolute_value_comes_before_the_sum_in_one_form_only(model: Transformer, pairs: list):
    found = contributions(model.eval(), batch_of(pairs, range(5)))
    for kind in Kind:
        position, sentence = (found[f"{form}/{kind}"][0] for form in Form)
        assert (position >= sentence).all() and (position > 1.01 * sentence).any()


def test_dropout_is_off_and_the_model_is_left_as_it_was(pairs: list):
    noisy = transformer(dropout=0.5).train()
    batches = [batch_of(pairs, range(5))]
    with torch.no_grad():
        found = importance(noisy, batches)
    plain = importance(transformer(), batches)
    for name, sums in plain.items():
        assert torch.equal(found[name].numerator, sums.numerator)
    assert noisy.training and all(each.grad is None for each in noisy.parameters())
    assert all(block.record is None for _, _, block in noisy.attentions())


def test_a_head_that_writes_nothing_scores_0_and_the_needed_one_most(
    model: Transformer, pairs: list
):
    silent = {Kind.ENCODER: 3, Kind.DECODER: 0, Kind.CROSS: 2}
    with torch.no_grad():
        for kind, _, block in model.attentions():
            heads = block.output.weight.reshape(WIDTH, HEADS, -1)
            heads *= 0.02
            heads[:, 1] *= 50  # the one head that is heard
            heads[:, silent[kind]] = 0
    found = importance(model, alone(pairs))
    for form in Form:
        for kind in Kind:
            scores = found[f"{form}/{kind}"].ratio()
            assert (scores[:, silent[kind]] == 0).all() and scores.argmax(1).tolist() == [1, 1]
            others = scores[:, [head for head in range(HEADS) if head not in (1, silent[kind])]]
            assert (others > 0).all()


def test_a_closed_head_scores_0(model: Transformer, pairs: list):
    gone = HeadId(Kind.CROSS, 1, 2)
    close_heads(model, [gone])
    scores = importance(model, alone(pairs))["position/cross"].ratio()
    assert scores[1, 2] == 0 and (scores > 0).sum() == LAYERS * HEADS - 1


def test_l2_normalised_by_hand():
    scores = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    by_hand = torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(l2_normalised(scores), by_hand)
    torch.testing.assert_close(l2_normalised(100 * scores), by_hand)
