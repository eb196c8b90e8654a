"""Relevance of heads through a whole model: the forward pass, conservation, and a needed head."""

import pytest
import torch

from headbook.heads import relevance_pass
from headbook.heads.relevance import Relevances, propagate, relevances
from headbook.heads.relevance_pass import forward_pass
from headbook.heads.relevance_rules import (
    ConstantAttentionRules,
    PositiveRules,
    Rules,
    SignedRules,
    Variant,
    rules_of,
)
from headbook.models.gates import close_heads, closed
from headbook.models.transformer import HeadCounts, NormPlacement, Transformer, TransformerConfig
from headbook.text.batches import EOS, UNK, Batch, collate
from headbook.types import HeadId, Kind, UserError

VOCABULARY = 13
TINY = {"encoder_layers": 2, "decoder_layers": 3, "width": 16, "feed_forward": 24, "heads": 4}
NIL = 1e-15
EXACT = [SignedRules(NIL), PositiveRules(), ConstantAttentionRules(NIL)]
rules_with_all = pytest.mark.parametrize("rules", EXACT, ids=lambda rules: type(rules).__name__)
with_both_norms = pytest.mark.parametrize("norm", list(NormPlacement))


def tiny(seed: int = 0, biases: bool = True, **options: object) -> Transformer:
    """All parameters random, double precision; without biases those of linear layers are 0."""
    torch.manual_seed(seed)
    config = TransformerConfig(VOCABULARY, VOCABULARY, dropout=0.1, **(TINY | options))
    model = Transformer(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        for module in model.modules():
            if isinstance(module, torch.nn.Linear) and module.bias is not None and not biases:
                module.bias.zero_()
    return model


def sentence(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return [*torch.randint(UNK, VOCABULARY, (length - 1,), generator=generator).tolist(), EOS]


def ragged(source: tuple[int, ...] = (5, 1, 4), target: tuple[int, ...] = (3, 6, 1)) -> Batch:
    pairs = [
        (sentence(one, 2 * row), sentence(other, 2 * row + 1))
        for row, (one, other) in enumerate(zip(source, target, strict=True))
    ]
    return collate(pairs, range(len(pairs)))


@with_both_norms
def test_the_forward_pass_is_the_models(norm: NormPlacement):
    model, batch = tiny(norm=norm), ragged()
    with torch.no_grad():
        close_heads(model, [HeadId(Kind.ENCODER, 0, 1), HeadId(Kind.CROSS, 2, 0)])
        expected = model(batch)
        torch.testing.assert_close(forward_pass(model, batch).logits, expected)
    assert all(block.record is None for _, _, block in model.attentions())


def test_a_pass_cut_short_is_the_pass_of_a_shorter_sentence():
    model, batch = tiny(), ragged()
    shorter = Batch(batch.source, batch.target_in[:, :2], batch.target_out[:, :2], batch.sentences)
    with torch.no_grad():
        whole, cut = forward_pass(model, batch), forward_pass(model, shorter)
    for steps, others in zip(whole.decoder, cut.decoder, strict=True):
        for step, other in zip(steps, others, strict=True):
            first = step.first(2)
            torch.testing.assert_close(first.added, other.added)
            if isinstance(first, relevance_pass.AttentionStep):
                torch.testing.assert_close(vars(first.core), vars(other.core))
            else:
                torch.testing.assert_close(first.hidden, other.hidden)


def assert_conserved(found: Relevances) -> None:
    for totals in found.conserved.values():
        real = totals[found.counted]
        torch.testing.assert_close(real, torch.ones_like(real), rtol=1e-4, atol=1e-4)


@rules_with_all
@with_both_norms
def test_everything_is_conserved_without_biases(rules: Rules, norm: NormPlacement):
    found = relevances(tiny(biases=False, norm=norm), ragged(), rules)
    assert {kind: each.shape for kind, each in found.conserved.items()} == {
        Kind.ENCODER: (3, 6, 2),
        Kind.DECODER: (3, 6, 3),
    }
    assert_conserved(found)


def test_biases_leak_only_where_they_are_part_of_the_sum():
    for rules in EXACT[:2]:
        assert_conserved(relevances(tiny(), ragged(), rules))
    with pytest.raises(AssertionError):
        assert_conserved(relevances(tiny(), ragged(), ConstantAttentionRules(NIL)))


def test_a_large_stabiliser_is_seen_in_the_conservation():
    model, batch = tiny(biases=False), ragged()
    lost = relevances(model, batch, SignedRules(0.3))
    with pytest.raises(AssertionError):
        assert_conserved(lost)


class WrongAxis(SignedRules):
    """Normalises over outputs, as the code of 2020 did."""

    def linear(self, inputs, weight, bias, relevance):
        terms = inputs[:, :, None] * weight
        ratios = terms / terms.sum(-2, keepdim=True)
        return torch.einsum("btoi,bpto->bpti", ratios, relevance)


def test_normalising_over_outputs_is_seen():
    with pytest.raises(AssertionError):
        assert_conserved(relevances(tiny(biases=False), ragged(), WrongAxis(NIL)))


@rules_with_all
def test_the_shares_of_skip_and_heads_make_up_a_block(rules: Rules):
    """What arrives before W_O of the lowest cross-attention has all the relevance of the source."""
    found = relevances(tiny(biases=False, decoder_layers=1), ragged(), rules)
    cross = found.heads[Kind.CROSS].sum((-1, -2))
    values_alone = isinstance(rules, ConstantAttentionRules)
    if values_alone:
        torch.testing.assert_close(cross, found.source)
    elif isinstance(rules, SignedRules):
        torch.testing.assert_close(0.75 * cross, found.source)  # a quarter goes to the queries
    else:
        assert (found.source < cross + 1e-9)[found.counted].all()


def test_positive_relevance_has_no_sign():
    found = relevances(tiny(), ragged(), PositiveRules())
    assert min(each.min() for each in found.heads.values()) >= 0
    torch.testing.assert_close(found.conserved, found.size)


@pytest.mark.parametrize("variant", list(Variant))
def test_single_precision_is_enough_for_the_declared_constants(variant: Variant):
    model, batch = tiny(), ragged()
    exact = relevances(model, batch, rules_of(variant)).heads
    rough = relevances(model.float(), batch, rules_of(variant)).heads
    for kind in Kind:
        torch.testing.assert_close(rough[kind].double(), exact[kind], rtol=1e-2, atol=1e-2)


@rules_with_all
def test_a_prediction_has_nothing_to_do_with_what_follows(rules: Rules):
    model, batch = tiny(), ragged()
    with torch.no_grad():
        alone = propagate(batch, forward_pass(model, batch), rules, range(1, 2))
    whole = relevances(model, batch, rules)
    for kind in Kind:
        torch.testing.assert_close(alone.heads[kind][:, 0], whole.heads[kind][:, 1])


@rules_with_all
def test_closed_heads_get_nothing(rules: Rules):
    model, batch = tiny(), ragged()
    heads = [HeadId(Kind.ENCODER, 1, 3), HeadId(Kind.DECODER, 0, 0), HeadId(Kind.CROSS, 2, 2)]
    close_heads(model, heads)
    found = relevances(model, batch, rules).heads
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


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize("needed", [0, 2])
def test_the_head_that_makes_the_logit_gets_the_relevance(variant: Variant, needed: int):
    model, batch = one_head_counts(needed), ragged((5, 7), (4, 4))
    found = relevances(model, batch, rules_of(variant)).heads[Kind.CROSS][:, :, 0].abs()
    share = found / found.sum(-1, keepdim=True)
    assert (share[..., needed] > 0.99).all()
    with torch.no_grad(), closed(model, [HeadId(Kind.CROSS, 0, needed)]):
        without = model(batch)
    # The four neurons are alike now: every position has the same logits but for a factor.
    assert torch.linalg.matrix_rank(without.flatten(0, 1), rtol=1e-9) == 1


def test_models_it_cannot_do_are_refused():
    batch = ragged()
    for layers in ({"encoder_layers": 0}, {"decoder_layers": 0}):
        with pytest.raises(UserError, match="an encoder and a decoder"):
            relevances(tiny(**layers), batch, EXACT[0])
    counts = HeadCounts((4, 4), (4, 0, 4), (4, 4, 4))
    with pytest.raises(UserError, match="close heads by gates"):
        relevances(tiny(head_counts=counts), batch, EXACT[0])
