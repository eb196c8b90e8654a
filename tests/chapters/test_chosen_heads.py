"""Page 58: overlaps of planted lists, halves of sentences, and gates of one size."""

import numpy as np
import pytest
import torch

from headbook.chapters.seeing._choosing import (
    by_sentence,
    gated,
    halved,
    overlaps,
    standardised,
    top,
    train,
    vectors,
)
from headbook.chapters.seeing.chosen_heads import (
    FIXED,
    ORACLE,
    OTHERS,
    OWN,
    RANDOM,
    READING,
    SHUFFLED,
    TAUGHT,
    Parameters,
    _shuffled,
    compute,
    facts,
)
from headbook.looking.effects import effects
from headbook.looking.load import load
from headbook.looking.text import text
from headbook.models.gates import all_heads, closed
from headbook.pruning.choosing import Chooser
from headbook.runs.store import Store
from headbook.types import Kind

SENTENCES = ["The cat sat on the mat .", "Heads , heads .", "Where did all of the heads go ?"]


def test_top_heads_of_each_sentence() -> None:
    values = np.array([[3.0, 0.0], [1.0, 5.0], [2.0, 4.0]])
    assert top(values, 2).T.tolist() == [[True, False, True], [False, True, True]]


def test_sentences_that_repeat_themselves_and_differ_from_others() -> None:
    """Each sentence has two heads of its own in both halves; two of six sentences share theirs."""
    halves = np.zeros((2, 12, 6))
    for sentence in range(6):
        halves[:, 2 * min(sentence, 4) : 2 * min(sentence, 4) + 2, sentence] = 1
    own, others = overlaps(halves, 2)
    assert (own == 1).all()
    np.testing.assert_allclose(others, [0, 0, 0, 0, 0.2, 0.2])
    noise = np.random.default_rng(0).random((2, 12, 200))
    own, others = overlaps(noise, 3)
    assert own.mean() == pytest.approx(0.25, abs=0.04) == others.mean()


@pytest.mark.parametrize("name", ["firefox-en-pt", "minilm"])
def test_halves_are_of_the_sentences_in_their_order(name: str) -> None:
    model = load(name)
    heads = [head for head in all_heads(model.network) if head.kind is Kind.ENCODER][:2]
    targets = SENTENCES if name != "minilm" else None
    batches = model.batches(SENTENCES, targets, 12)
    assert len(batches) > 1
    found = halved(model, batches, heads)
    assert found.shape == (2, 2, 3)
    whole = effects(model, batches, [lambda head=head: closed(model.network, [head])
                                     for head in heads])  # fmt: skip
    if name != "minilm":  # nats add up, cosines do not
        np.testing.assert_allclose(found.sum(0), whole.added.numpy(), atol=1e-4)
    again = halved(model, model.batches(SENTENCES, targets), heads)
    np.testing.assert_allclose(found, again, atol=1e-4)


def test_vectors_are_linear_in_the_mean_embedding() -> None:
    model = load("firefox-en-pt")
    (batch,) = model.batches(SENTENCES[:1])
    (found,) = vectors(model, [batch])
    with torch.no_grad():
        embedded = model.network.embedded_source(batch.source).mean(1)
        expected = model.network.encoder[0].attention.value(embedded)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    one, other = standardised([found, found + 1], [torch.randn(50, found.shape[1])])
    assert one.shape == found.shape and not torch.allclose(one, other)


def test_another_sentence_s_gates_are_all_moved_and_none_is_lost() -> None:
    model = load("firefox-en-pt")
    batches = model.batches(SENTENCES, None, 12)
    gates = by_sentence(np.eye(3), batches)
    moved = _shuffled(gates, batches, torch.Generator().manual_seed(0))
    assert [len(each) for each in moved] == [len(batch) for batch in batches]
    rows, others = torch.cat(gates), torch.cat(moved)
    assert not (rows == others).all(1).any()
    assert sorted(rows.tolist()) == sorted(others.tolist())


def test_training_lowers_the_loss_and_leaves_the_model_as_it_was() -> None:
    model = load("minilm")
    batches = model.batches(text("ewt-sample").sentences[:8], None, 256)
    x = standardised(vectors(model, batches), vectors(model, batches))

    def effect(chooser: Chooser) -> float:
        with torch.no_grad():
            return float(gated(model, Kind.ENCODER, batches, [chooser(each) for each in x]).mean)

    width = x[0].shape[1]
    before = effect(Chooser(72, width, 24, reads=False).eval())
    after = train(model, Kind.ENCODER, batches, x, Chooser(72, width, 24, reads=True), 12, seed=0)
    assert effect(after) < before
    assert all(each.requires_grad for each in model.network.parameters())
    assert all(block.gate is None for _, _, block in model.network.attentions())


def test_a_page_with_gates_has_every_row_and_claims(tmp_path) -> None:
    given = Parameters(models=("minilm",), sentences=4, train=6, updates=2, seeds=3)
    tables = compute(given, Store(tmp_path))
    gates = tables["gates"]
    counts = gates.groupby("gate").size()
    assert counts[[FIXED, READING, SHUFFLED, TAUGHT, RANDOM]].tolist() == [3] * 5
    assert counts[ORACLE] == 1 and (gates["open"] == 24).all()
    assert (gates[gates["gate"] == FIXED]["different"] == 1).all()
    assert len(tables["claims"]) == 4
    overlap = tables["overlap"]
    assert overlap[overlap["of"].isin([OWN, OTHERS])]["value"].between(0, 1).all()
    assert facts(tables)["minilm_heads"] == "72"
