"""What every measure owes: batching, padding and order change nothing; inputs stay as they are."""

import copy

import pytest
import torch

from headbook.heads.confidence import Confidence
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import PositionalShare
from headbook.heads.rare import RareShare, RareUnit
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.types import Kind

MEASURES = {
    "confidence": lambda corpus, ranks: Confidence(Kind.ENCODER),
    "decoder confidence": lambda corpus, ranks: Confidence(Kind.DECODER),
    "cross confidence": lambda corpus, ranks: Confidence(Kind.CROSS),
    "positional": lambda corpus, ranks: PositionalShare(Kind.ENCODER),
    "decoder positional": lambda corpus, ranks: PositionalShare(Kind.DECODER),
    "cross positional": lambda corpus, ranks: PositionalShare(Kind.CROSS),
    "rare": lambda corpus, ranks: RareShare(ranks),
    "rare by sentence": lambda corpus, ranks: RareShare(ranks, RareUnit.SENTENCE),
    "offsets": lambda corpus, ranks: OffsetShare(corpus.trees),
    "syntactic": lambda corpus, ranks: SyntacticAccuracy(corpus.trees),
}


@pytest.fixture(params=MEASURES)
def make(request, corpus, ranks):
    return lambda: MEASURES[request.param](corpus, ranks)


def measured(make, corpus, attention, batches, extra=0):
    measure = make()
    for sentences in batches:
        batch = corpus.batch(sentences, extra)
        measure.update(attention(batch, measure.kind), batch)
    return measure.sums()


def same(one, other) -> None:
    for mine, theirs in ((one.numerator, other.numerator), (one.denominator, other.denominator)):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def test_splitting_permuting_and_padding_change_nothing(make, corpus, attention) -> None:
    everything = list(range(24))
    whole = measured(make, corpus, attention, [everything])
    shuffled = torch.randperm(24, generator=torch.Generator().manual_seed(0)).tolist()
    same(whole, measured(make, corpus, attention, [[number] for number in everything]))
    same(whole, measured(make, corpus, attention, [shuffled[:7], shuffled[7:]]))
    same(whole, measured(make, corpus, attention, [everything], extra=5))


def test_permuting_heads_permutes_scores(make, corpus, attention) -> None:
    batch = corpus.batch(list(range(12)))
    plain, permuted = make(), make()
    tape = attention(batch, plain.kind)
    order = [2, 0, 1]
    turned = {address: [layer[:, order] for layer in layers] for address, layers in tape.items()}
    plain.update(tape, batch)
    permuted.update(turned, batch)
    expected = plain.compute() if isinstance(plain, OffsetShare) else plain.compute()[:, order]
    assert torch.equal(permuted.compute().nan_to_num(), expected.nan_to_num())


def test_inputs_are_left_alone(make, corpus, attention) -> None:
    batch, measure = corpus.batch(list(range(6))), make()
    tape = attention(batch, measure.kind)
    given = {name: value for name, value in vars(batch).items() if value is not None}
    before, trees, fields = copy.deepcopy((tape, corpus.trees, given))
    measure.update(tape, batch)
    for address, layers in tape.items():
        assert all(map(torch.equal, layers, before[address]))
    assert all(torch.equal(value, fields[name]) for name, value in given.items())
    for tree, kept in zip(corpus.trees, trees, strict=True):
        assert torch.equal(tree.pieces, kept.pieces) and torch.equal(tree.arcs, kept.arcs)


def test_rows_of_padding_count_for_nothing(make, corpus, attention) -> None:
    batch, clean, dirty = corpus.batch([0, 1, 2, 3], extra=3), make(), make()
    tape = attention(batch, clean.kind)
    queries = batch.source_mask if clean.kind is Kind.ENCODER else batch.target_mask
    garbled = {
        address: [torch.where(queries[:, None, :, None], layer, 1.0) for layer in layers]
        for address, layers in tape.items()
    }
    clean.update(tape, batch)
    dirty.update(garbled, batch)
    same(clean.sums(), dirty.sums())


def test_state_does_not_grow(make, corpus, attention) -> None:
    short = measured(make, corpus, attention, [[0, 1]])
    long = measured(make, corpus, attention, [[0, 1], list(range(2, 40))])
    assert short.numerator.shape == long.numerator.shape
    assert short.denominator.shape == long.denominator.shape
