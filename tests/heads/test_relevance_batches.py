"""Relevance of a batch is that of its sentences alone; what a text sums to."""

import pytest
import torch

from headbook.heads import relevance as relevance_module
from headbook.heads import relevance_rules
from headbook.heads.bootstrap import half_of
from headbook.heads.relevance import Relevances, relevances
from headbook.heads.relevance_rules import Rules, Variant, rules_of
from headbook.heads.relevance_sums import RelevanceSums, collect_relevance
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, UNK, Batch, collate, in_order
from headbook.types import Kind, UserError

VOCABULARY = 13
LENGTHS = ((1, 9), (2, 1), (9, 33), (33, 2))
LONG = ((129, 2), (1, 129))
with_every_variant = pytest.mark.parametrize("variant", list(Variant))


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(VOCABULARY, VOCABULARY, 2, 2, 16, 24, 4, dropout=0.0)
    model = Transformer(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def drawn(lengths: tuple[tuple[int, int], ...]) -> list:
    """A pair of random sentences for each pair of lengths, EOS among them."""
    generator = torch.Generator().manual_seed(1)
    return [
        tuple(
            [*torch.randint(UNK, VOCABULARY, (length - 1,), generator=generator).tolist(), EOS]
            for length in both
        )
        for both in lengths
    ]


@pytest.fixture(scope="module")
def pairs() -> list:
    return drawn(LENGTHS)


def padded(batch: Batch, extra: int) -> Batch:
    sides = ("source", "target_in", "target_out")
    wider = {name: torch.nn.functional.pad(getattr(batch, name), (0, extra)) for name in sides}
    return Batch(**wider, sentences=batch.sentences)


def assert_alone_as_together(model: Transformer, pairs: list, rules: Rules) -> None:
    together = relevances(model, padded(collate(pairs, range(len(pairs))), 2), rules)
    for row, pair in enumerate(pairs):
        alone = relevances(model, collate([pair], [row]), rules)
        length = len(pair[1])
        assert together.counted[row].sum() == length
        for name in ("heads", "conserved", "size"):
            for kind, expected in getattr(alone, name).items():
                found = getattr(together, name)[kind][row]
                torch.testing.assert_close(found[:length], expected[0], rtol=1e-6, atol=1e-9)
                assert (found[length:] == 0).all()
        torch.testing.assert_close(together.source[row, :length], alone.source[0])


@with_every_variant
def test_a_ragged_batch_gives_what_batches_of_one_give(
    model: Transformer, pairs: list, variant: Variant
):
    assert_alone_as_together(model, pairs, rules_of(variant))


@with_every_variant
def test_long_sentences_give_what_batches_of_one_give(model: Transformer, variant: Variant):
    assert_alone_as_together(model, drawn(LONG), rules_of(variant))


def test_rescaling_over_the_whole_tensor_is_seen(
    model: Transformer, pairs: list, monkeypatch: pytest.MonkeyPatch
):
    def over_everything(incoming, *parts):
        total = sum(part.abs().sum() for part in parts)
        return tuple(part.abs() * (incoming.sum() / total) for part in parts)

    monkeypatch.setattr(relevance_rules, "rescaled", over_everything)
    with pytest.raises(AssertionError):
        assert_alone_as_together(model, pairs, rules_of(Variant.CODE_2019))


@with_every_variant
def test_predictions_at_padding_are_seen(
    model: Transformer, pairs: list, variant: Variant, monkeypatch: pytest.MonkeyPatch
):
    start = relevance_module._start

    def everywhere(passed, rules, predictions, counted):
        return start(passed, rules, predictions, torch.ones_like(counted))

    monkeypatch.setattr(relevance_module, "_start", everywhere)
    with pytest.raises(AssertionError):
        assert_alone_as_together(model, pairs, rules_of(variant))


@with_every_variant
def test_keys_at_padding_are_seen(
    model: Transformer, pairs: list, variant: Variant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Batch, "source_mask", property(lambda batch: batch.source >= 0))
    with pytest.raises(AssertionError):
        assert_alone_as_together(model, pairs, rules_of(variant))


@with_every_variant
def test_how_many_are_propagated_at_a_time_changes_nothing(
    model: Transformer, pairs: list, variant: Variant
):
    batch, rules = collate(pairs, range(4)), rules_of(variant)
    few, many = (relevances(model, batch, rules, rows) for rows in (1, 10**9))
    for kind in Kind:
        torch.testing.assert_close(few.heads[kind], many.heads[kind], rtol=1e-6, atol=1e-9)


def two_predictions() -> tuple[Relevances, Batch]:
    """One sentence of two predictions and one of a single one, in a layer of two heads."""
    heads = torch.tensor([[[[0.3, -0.1]], [[0.0, 0.0]]], [[[0.2, 0.2]], [[0.0, 0.0]]]])
    totals = torch.tensor([[[1.0], [0.9]], [[0.5], [0.0]]])
    kinds = dict.fromkeys((Kind.ENCODER, Kind.DECODER), totals)
    counted = torch.tensor([[True, True], [True, False]])
    batch = collate([([5, EOS], [6, EOS]), ([5, EOS], [EOS])], [0, 1])
    return Relevances(dict.fromkeys(Kind, heads), kinds, kinds, totals[..., 0], counted), batch


def test_means_over_predictions_by_hand():
    sums = RelevanceSums(replicates=5)
    sums.update(*two_predictions())
    found = {name: each.ratio() for name, each in sums.sums().items()}
    # Parts of the layer: 3/4, 1/4; the second prediction reached no head; 1/2, 1/2.
    expected = torch.tensor([[0.625, 0.375]], dtype=torch.float64)
    torch.testing.assert_close(found["normalised/cross"], expected)
    # Three predictions: 0.3, 0, 0.2 and −0.1, 0, 0.2.
    torch.testing.assert_close(found["raw/encoder"], torch.tensor([[0.5, 0.1]]).double() / 3)
    torch.testing.assert_close(found["absolute/decoder"], torch.tensor([[0.5, 0.3]]).double() / 3)
    for name in ("conservation/encoder", "growth/decoder"):
        torch.testing.assert_close(found[name], torch.tensor([0.8]).double())
    torch.testing.assert_close(found["source"], torch.tensor(0.8).double())


def test_a_layer_that_no_prediction_reaches_is_not_a_number():
    found, batch = two_predictions()
    sums = RelevanceSums(replicates=5)
    sums.update(Relevances({Kind.CROSS: found.heads[Kind.CROSS] * 0}, {}, {}, found.source,
                           found.counted), batch)  # fmt: skip
    assert sums.sums()["normalised/cross"].ratio().isnan().all()
    assert sums.sums()["raw/cross"].ratio().eq(0).all()


@with_every_variant
def test_batches_add_up(model: Transformer, pairs: list, variant: Variant):
    several, rules = pairs * 3, rules_of(variant)
    sums = [RelevanceSums(20), RelevanceSums(20)]
    for each, tokens in zip(sums, (40, 4000), strict=True):
        collect_relevance(model.train(), in_order(several, tokens), rules, each)
        assert model.training
    small, large = (each.sums() for each in sums)
    assert small.keys() == large.keys()
    for name, each in small.items():
        torch.testing.assert_close(each.ratio(), large[name].ratio(), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(
            torch.stack(each.interval()), torch.stack(large[name].interval()), rtol=1e-6, atol=1e-9
        )
    for kind in Kind:
        heads = small[f"normalised/{kind}"].ratio()
        assert heads.shape == (2, 4)
        torch.testing.assert_close(heads.sum(-1), torch.ones(2).double())


def test_a_half_is_the_sum_over_its_sentences(model: Transformer, pairs: list):
    rules, several = rules_of(Variant.CODE_2019), pairs * 3
    numbers = [number for number in range(12) if half_of(torch.tensor([number])) == 1]
    sums = RelevanceSums(2), RelevanceSums(2)
    collect_relevance(model, [collate(several, range(12))], rules, sums[0])
    batch = collate([several[number] for number in numbers], numbers)
    collect_relevance(model, [batch], rules, sums[1])
    for name, each in sums[0].sums().items():
        torch.testing.assert_close(each.ratio(1), sums[1].sums()[name].ratio())


def test_sums_of_nothing_are_refused():
    with pytest.raises(UserError, match="update it first"):
        RelevanceSums().sums()
