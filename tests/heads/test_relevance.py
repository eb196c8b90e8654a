"""Relevance of heads through a whole model: conserved, as autograd has it, whatever the batch."""

import blocks
import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from headbook.heads.relevance import Translator, relevances
from headbook.heads.relevance_rules import (
    RULES,
    ConstantAttentionRules,
    PositiveRules,
    Rules,
    SignedRules,
)
from headbook.models.attention import Attention
from headbook.models.gates import close_heads, closed
from headbook.models.transformer import NormPlacement, Transformer
from headbook.text.batches import EOS, UNK, Batch, collate
from headbook.types import HeadId, Kind

HEADS, NIL = 4, 1e-15
LENGTHS = ((5, 3), (1, 6), (12, 1))
EXACT = [SignedRules(NIL), PositiveRules(), ConstantAttentionRules(NIL)]
rules_with_all = pytest.mark.parametrize("rules", EXACT, ids=lambda rules: type(rules).__name__)
rules_as_declared = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def tiny(biases: bool = True, **options: object) -> Transformer:
    """Without biases those of linear layers are 0."""
    model = blocks.tiny(**({"decoder_layers": 3} | options)).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and module.bias is not None and not biases:
            module.bias.data.zero_()
    return model


def through(model: Transformer) -> Translator:
    def decoded(batch: Batch) -> Tensor:
        return model.decode(batch.target_in, *model.encode(batch.source))

    return Translator(model, decoded, model.logits.weight)


def pairs() -> list[tuple[list[int], list[int]]]:
    drawn = torch.Generator().manual_seed(1)

    def sentence(length: int) -> list[int]:
        return [
            *torch.randint(UNK, blocks.VOCABULARY, (length - 1,), generator=drawn).tolist(),
            EOS,
        ]

    return [tuple(map(sentence, both)) for both in LENGTHS]


def ragged() -> Batch:
    return collate(pairs(), range(len(LENGTHS)))


@rules_with_all
@pytest.mark.parametrize("norm", list(NormPlacement))
def test_everything_is_conserved_without_biases(rules: Rules, norm: NormPlacement):
    found = relevances(through(tiny(biases=False, norm=norm)), ragged(), rules)
    shapes = {kind: each.shape for kind, each in found.conserved.items()}
    assert shapes == {Kind.ENCODER: (3, 6, 2), Kind.DECODER: (3, 6, 3)}
    for totals in found.conserved.values():
        real = totals[found.counted]
        torch.testing.assert_close(real, torch.ones_like(real), rtol=1e-4, atol=1e-4)


def test_biases_leak_where_they_are_part_of_the_sum_and_a_large_stabiliser_does():
    for rules in (ConstantAttentionRules(NIL), SignedRules(0.3)):
        found = relevances(through(tiny()), ragged(), rules)
        left = found.conserved[Kind.ENCODER][found.counted]
        assert (left - 1).abs().mean() > 0.01


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
def test_signed_relevance_is_input_times_gradient(constant: bool):
    """Independent: autograd through a pass in which everything the rules hold constant is so."""
    model, one = tiny(), collate(pairs()[:1], [0])
    passed = Held(model, constant)
    logits = passed.logits(one)
    torch.testing.assert_close(logits, model(one))
    rules = (ConstantAttentionRules if constant else SignedRules)(NIL)
    found = relevances(through(model), one, rules).heads
    for position, logit in enumerate(logits[0].amax(-1)):
        for kind, contexts in passed.contexts.items():
            slopes = torch.autograd.grad(logit, contexts, retain_graph=True)
            terms = [each * slope for each, slope in zip(contexts, slopes, strict=True)]
            expected = torch.stack([each[0].sum((-1, -2)) for each in terms]).detach() / logit
            torch.testing.assert_close(
                found[kind][0, position], expected.detach(), rtol=1e-6, atol=1e-8
            )


@rules_as_declared
def test_a_ragged_batch_gives_what_single_sentences_give(rules: Rules):
    model, batch = through(tiny()), ragged()
    together = relevances(model, blocks.wider(batch, 2), rules)
    for row, pair in enumerate(pairs()):
        alone, length = relevances(model, collate([pair], [row]), rules, rows=1), len(pair[1])
        assert together.counted[row].sum() == length
        for name in ("heads", "conserved"):
            for kind, expected in getattr(alone, name).items():
                found = getattr(together, name)[kind][row]
                torch.testing.assert_close(found[:length], expected[0], rtol=1e-6, atol=1e-9)
                assert (found[length:] == 0).all()


@rules_with_all
def test_closed_heads_get_nothing(rules: Rules):
    model = tiny()
    heads = [HeadId(Kind.ENCODER, 1, 3), HeadId(Kind.DECODER, 0, 0), HeadId(Kind.CROSS, 2, 2)]
    close_heads(model, heads)
    found = relevances(through(model), ragged(), rules).heads
    for head in heads:
        layer = found[head.kind][:, :, head.layer]
        # The code of 2019 shifts inputs by 1e-7, also those of a closed head.
        assert layer[..., head.head].abs().max() < 1e-4 * layer.abs().max()


def one_head_counts(needed: int) -> Transformer:
    """Logits read the first four neurons, to which one head of the cross-attention writes alone.

    The other heads write louder, to neurons that no logit reads.
    """
    model = tiny(encoder_layers=1, decoder_layers=1, biases=False)
    (layer,) = model.decoder
    with torch.no_grad():
        layer.feed_forward.outer.weight.zero_()
        layer.attention.output.weight.zero_()
        model.target.tokens.weight[:, :4] = 0
        model.target.bias[:4] = 0
        model.target.positions[:, :4] = 0
        model.logits.weight[:, 4:] = 0
        model.decoder_norm.weight.fill_(1)
        model.decoder_norm.bias.zero_()
        written = torch.zeros(16, 4, 4, dtype=torch.float64)
        written[4:] = 3 * torch.randn(12, 4, 4, dtype=torch.float64)
        written[:, needed] = 0
        written[:4, needed] = torch.randn(4, 4, dtype=torch.float64)
        layer.cross.output.weight.copy_(written.flatten(1))
    return model


@rules_as_declared
def test_the_head_that_makes_the_logit_gets_the_relevance(rules: Rules):
    model, batch, needed = one_head_counts(2), ragged(), 2
    found = relevances(through(model), batch, rules)
    parts = found.heads[Kind.CROSS][:, :, 0].abs()[found.counted]
    assert (parts[..., needed] > 0.99 * parts.sum(-1)).all()
    with torch.no_grad(), closed(model, [HeadId(Kind.CROSS, 0, needed)]):
        without = model(batch)[batch.target_mask]
    # The four neurons are alike now: every position has the same logits but for a factor.
    assert torch.linalg.matrix_rank(without, rtol=1e-9) == 1
