"""Relevance of heads through a whole model: conserved, as autograd has it, whatever the batch."""

import blocks
import pytest
import torch
from held import hold, shares
from torch import Tensor

from headbook.heads.relevance import Translator, relevances
from headbook.heads.relevance_rules import (
    RULES,
    ConstantAttentionRules,
    PositiveRules,
    Rules,
    SignedRules,
)
from headbook.models.gates import close_heads
from headbook.models.transformer import NormPlacement, Transformer
from headbook.text.batches import Batch
from headbook.types import HeadId, Kind

NIL = 1e-15
BATCH = blocks.ragged((5, 1, 12), (3, 6, 1))
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


@rules_with_all
@pytest.mark.parametrize("norm", list(NormPlacement))
def test_everything_is_conserved_without_biases(rules: Rules, norm: NormPlacement):
    found = relevances(through(tiny(biases=False, norm=norm)), BATCH, rules)
    for totals in found.conserved.values():
        real = totals[found.counted]
        torch.testing.assert_close(real, torch.ones_like(real), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("constant", [True, False], ids=["constant-attention", "signed"])
def test_signed_relevance_is_input_times_gradient(constant: bool):
    """Independent: autograd through a pass in which everything the rules hold constant is so."""
    model, one = tiny(), blocks.alone(BATCH, 0)
    rules = (ConstantAttentionRules if constant else SignedRules)(NIL)
    found = relevances(through(model), one, rules).heads
    logits = model(one)
    contexts = hold(model, constant)
    again = model(one)
    torch.testing.assert_close(again, logits)
    for kind, own in contexts.items():
        expected = shares(again[0].amax(-1), own)
        torch.testing.assert_close(found[kind][0], expected, rtol=1e-6, atol=1e-8)


@rules_as_declared
def test_a_ragged_batch_gives_what_single_sentences_give(rules: Rules):
    model, batch = through(tiny()), BATCH
    together = relevances(model, blocks.wider(batch, 2), rules)
    for row, length in enumerate(batch.target_mask.sum(1).tolist()):
        alone = relevances(model, blocks.alone(batch, row), rules, rows=1)
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
    found = relevances(through(model), BATCH, rules).heads
    for head in heads:
        layer = found[head.kind][:, :, head.layer]
        # The code of 2019 shifts inputs by 1e-7, also those of a closed head.
        assert layer[..., head.head].abs().max() < 1e-4 * layer.abs().max()
