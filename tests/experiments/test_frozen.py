"""A frozen network learns what can be learned; its matrices stay; shuffled labels teach nothing."""

import copy
import math
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertModel

from headbook.corpora.small_tasks import UNASKED, Split, task
from headbook.experiments import frozen
from headbook.experiments.frozen import Training, answered, evaluated, train

ASKED = Training(task="digits", trainable="all", rate=3e-3, layers=1, updates=100)


@pytest.fixture(scope="module")
def body() -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=16)  # fmt: skip
    return BertModel(config).eval()


@pytest.fixture(autouse=True)
def loaded(body: BertModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen, "load", lambda _: SimpleNamespace(network=body))


def outcome(asked: Training) -> pd.Series:
    with asked.network() as model:
        return train(model, asked).iloc[0]


def test_digits_are_learned_and_shuffled_labels_teach_nothing() -> None:
    found = outcome(ASKED)
    assert found["test"] > 0.7 and found["tuned"] == 1 and found["steps"] == 100
    assert outcome(replace(ASKED, shuffled=True))["test"] < 0.3


@pytest.mark.parametrize("part", ["output", "+ norms", "+ positions"])
def test_what_is_not_tuned_keeps_its_bits(part: str, body: BertModel) -> None:
    asked = replace(ASKED, trainable=part, updates=2)
    with asked.network() as model:
        tuned = {*map(id, model.parts()[part])}
        before = [each.clone() for each in model.parameters()]
        train(model, asked)
        for then, now in zip(before, model.parameters(), strict=True):
            assert torch.equal(then, now) is (id(now) not in tuned)


def test_starts_differ_as_they_should_and_the_encoder_stays(body: BertModel) -> None:
    key, own = "encoder.layer.0.attention.self.query.weight", copy.deepcopy(body.state_dict())
    for start in ("trained", "redrawn", "scratch"):
        with replace(ASKED, start=start).network() as model:
            found = model.body.bert.state_dict()[key]
            assert torch.equal(found, own[key]) is (start == "trained")
    outcome(replace(ASKED, updates=2))
    assert all(torch.equal(each, own[name]) for name, each in body.state_dict().items())


def test_the_accuracy_is_that_of_what_is_asked_for() -> None:
    """Bits that are shown are no answers; those hidden are counted by a loop."""
    asked = replace(ASKED, task="bit memory")
    with asked.network() as model:
        part = task("bit memory").test
        few = Split(part.inputs[:9], part.real[:9], part.labels[:9])
        logits, _ = answered(model, few, torch.arange(9))
        asked_for = ((row, at) for row, at in (few.labels != UNASKED).nonzero().tolist())
        hits = [int(logits[at].argmax()) == few.labels[at] for at in asked_for]
        assert 0 < len(hits) < few.labels.numel()
        assert evaluated(model, few)[0] == pytest.approx(sum(hits) / len(hits))


def test_a_rate_that_breaks_the_network_ends_it_and_is_never_the_best() -> None:
    found = outcome(replace(ASKED, rate=1e30, updates=9))
    assert math.isnan(found["last"]) and found["steps"] < 9
    assert 0 <= found["validation"] < 0.4 and math.isfinite(found["loss"])
