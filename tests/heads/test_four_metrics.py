"""The four metrics together: what scale does to either form, and maps that look forward."""

import pytest
import torch

from headbook.heads import diversity_maps
from headbook.heads.four_metrics import (
    ARTICLE,
    ATTENTION,
    DISSIMILARITY,
    FREE,
    NON_ORTHOGONALITY,
    ORTHOGONALITY,
    RAW,
    four_metrics,
    head_outputs,
)
from headbook.heads.outputs import parts_of
from headbook.heads.tokens import counted_pairs
from headbook.models.published import PublishedTransformer
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import collate
from headbook.types import Kind, UserError


def decoder(heads: int = 4) -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(13, 13, 0, 2, 16, 24, heads, dropout=0.3)
    return Transformer(config).eval()


def batch(length: int = 12):
    ids = torch.randint(3, 13, (4, length), generator=torch.Generator().manual_seed(1)).tolist()
    return collate([((1,), row) for row in ids], range(4))


def test_shapes_and_names():
    found = four_metrics(decoder(), Kind.DECODER, [batch()])
    assert set(found) == {(metric, form) for metric in ARTICLE for form in (RAW, FREE)}
    for (metric, _), values in found.items():
        assert tuple(values.shape) == ((2, 4) if metric == ATTENTION else (2, 4, 4))
        assert torch.isfinite(values).all()


def scaled(model: Transformer, factor: float) -> Transformer:
    """Queries of every head times a factor and keys over it: the maps stay as they are."""
    with torch.no_grad():
        for _, _, block in model.attentions():
            for linear, by in ((block.query, factor), (block.key, 1 / factor)):
                linear.weight.mul_(by)
                linear.bias.mul_(by)
    return model


def test_only_the_raw_form_sees_a_constant():
    plain = four_metrics(decoder(), Kind.DECODER, [batch()])
    times = four_metrics(scaled(decoder(), 4.0), Kind.DECODER, [batch()])
    for address in plain:
        if address == (ORTHOGONALITY, RAW):
            assert torch.allclose(times[address], 16 * plain[address], rtol=1e-4)
        else:
            assert torch.allclose(times[address], plain[address], atol=1e-5)


def test_values_times_a_constant_move_the_raw_context_alone():
    model = decoder()
    plain = four_metrics(model, Kind.DECODER, [batch()])
    with torch.no_grad():
        first = next(block for _, _, block in model.attentions())
        first.value.weight.mul_(3.0)
        first.value.bias.mul_(3.0)
        first.output.bias.zero_()
    times = four_metrics(model, Kind.DECODER, [batch()])
    raw, free = (NON_ORTHOGONALITY, RAW), (NON_ORTHOGONALITY, FREE)
    assert torch.allclose(times[raw][0], 9 * plain[raw][0], rtol=1e-4)
    assert torch.allclose(times[free][0], plain[free][0], atol=1e-5)
    assert torch.allclose(times[DISSIMILARITY, FREE][0], plain[DISSIMILARITY, FREE][0], atol=1e-5)


def test_identical_heads_are_as_alike_as_can_be():
    model = decoder(heads=2)
    with torch.no_grad():
        for _, _, block in model.attentions():
            for linear in (block.query, block.key, block.value):
                linear.weight[8:], linear.bias[8:] = linear.weight[:8], linear.bias[:8]
            block.output.weight[:, 8:] = block.output.weight[:, :8]
    found = four_metrics(model, Kind.DECODER, [batch()])
    for metric, expected in ((ORTHOGONALITY, 1.0), (NON_ORTHOGONALITY, 1.0), (DISSIMILARITY, -1.0)):
        assert torch.allclose(found[metric, FREE][:, 0, 1], torch.tensor(expected).double())


def test_one_batch_or_two_are_the_same():
    both = batch()
    halves = [collate([((1,), row.tolist())], [index])
              for index, row in enumerate(both.target_out)]  # fmt: skip
    whole, parts = (four_metrics(decoder(), Kind.DECODER, each) for each in ([both], halves))
    assert all(torch.allclose(whole[address], parts[address], rtol=1e-5) for address in whole)


def test_maps_that_look_forward_are_not_taken_for_empty(monkeypatch):
    torch.manual_seed(0)
    model = PublishedTransformer(13, 2, 16, 24, 4, 0.0).eval()
    found = four_metrics(model, Kind.DECODER, [batch()])
    assert (found[ATTENTION, RAW] > 1e-4).all() and (found[ATTENTION, FREE] > 1e-2).all()
    monkeypatch.setattr(  # the fault: a decoder's keys are those before the query
        diversity_maps, "counted_maps",
        lambda tape, given, kind: [
            each.double() * counted_pairs(given, kind, boundary=True)[:, None]
            for each in tape[kind, diversity_maps.Point.WEIGHTS]
        ],
    )  # fmt: skip
    wrong = four_metrics(model, Kind.DECODER, [batch()])
    assert not torch.allclose(wrong[ATTENTION, RAW], found[ATTENTION, RAW], rtol=0.5)


def test_the_model_is_left_as_it_was():
    model = decoder().train()
    before = torch.get_rng_state()
    four_metrics(model, Kind.DECODER, [batch()])
    assert model.training and torch.equal(before, torch.get_rng_state())


def test_no_text_is_refused():
    with pytest.raises(UserError, match="at least one segment"):
        four_metrics(decoder(), Kind.DECODER, [])


def test_outputs_are_each_head_s_part_of_the_projection():
    model = decoder()
    first = next(block for _, _, block in model.attentions())
    assert torch.equal(
        head_outputs(model, Kind.DECODER)[0], parts_of(first.output.weight.detach(), 4)
    )
