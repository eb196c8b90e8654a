"""Confidence of heads whose confidence is known."""

import known_heads as planted
import pytest
import torch

from headbook.heads.confidence import Confidence
from headbook.models.capture import Point
from headbook.types import Kind

LENGTHS = (1, 2, 9, 33, 129)


def confidence(tape, batch, kind=Kind.ENCODER):
    measure = Confidence(kind)
    measure.update(tape, batch)
    return measure.compute()


@pytest.fixture
def heads(ladder):
    """One sentence of each length, and the heads: identity, uniform, first, EOS."""
    batch = ladder.batch([0, 4, 8, 12, 16])
    made = [planted.at_offset(batch, 0), planted.uniform(batch)]
    return batch, planted.recording([*made, planted.at_first(batch), planted.at_eos(batch)])


def test_known_heads(heads) -> None:
    batch, tape = heads
    found = confidence(tape, batch)[0]
    # a uniform head of a sentence of n tokens has 1 / (n + 1) at each of them, EOS included
    uniform = sum(n / (n + 1) for n in LENGTHS) / sum(LENGTHS)
    assert torch.allclose(found, torch.tensor([1.0, uniform, 1.0, 0.0]).double())


@pytest.mark.parametrize("kind", list(Kind))
def test_agrees_with_a_loop(corpus, attention, kind) -> None:
    batch = corpus.batch(list(range(6)))
    tape = attention(batch, kind)
    sources, targets = batch.source_mask.sum(1) - 1, batch.target_mask.sum(1) - 1
    expected = []
    for row in range(6):
        source, target = int(sources[row]), int(targets[row])
        keys = slice(1, target + 1) if kind is Kind.DECODER else slice(0, source)
        queries = {
            Kind.ENCODER: range(source),
            Kind.DECODER: range(1, target + 1),
            Kind.CROSS: range(target),
        }[kind]
        weights = torch.stack(tape[kind, Point.WEIGHTS])[:, row]
        expected += [weights[:, :, query, keys].max(-1).values for query in queries]
    wanted = torch.stack(expected).double().mean(0)
    assert torch.allclose(confidence(tape, batch, kind), wanted)


def test_weights_after_dropout_are_found_out(heads) -> None:
    batch, tape = heads
    torch.manual_seed(0)
    dropped = {
        address: [torch.nn.functional.dropout(layer, 0.5) for layer in layers]
        for address, layers in tape.items()
    }
    found, faulty = confidence(tape, batch)[0], confidence(dropped, batch)[0]
    # identity: half of the rows are gone, the others doubled; uniform: twice one surviving key
    assert (faulty[:2] - found[:2]).abs().min() > 0.005
