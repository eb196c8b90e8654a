"""A cell learns what can be learned, is kept in the store, and shuffled labels teach nothing."""

import math
from dataclasses import asdict, replace

import pytest
import torch
from transformers import BertConfig, BertModel

from headbook.artefacts import new_task
from headbook.artefacts.new_task import Start, Tuned, Tuning, network, right, train, tuned
from headbook.corpora.small_tasks import DIGITS, UNASKED, task
from headbook.models.new_ends import Trainable
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.store import Store
from headbook.types import UserError

CELL = Tuning(DIGITS, Start.TRAINED, Trainable.ALL, 3e-3, layers=1, updates=100)


@pytest.fixture(scope="module")
def body() -> BertModel:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=16)  # fmt: skip
    return BertModel(config).eval()


def outcome(cell: Tuning, body: BertModel) -> Tuned:
    with network(cell, body) as model:
        return train(model, cell, task(cell.task))


def test_digits_are_learned_and_shuffled_labels_teach_nothing(body):
    assert outcome(CELL, body).test > 0.7
    assert outcome(replace(CELL, shuffled=True), body).test < 0.3


def test_the_output_layer_alone_learns_the_same_from_states_computed_once(body, monkeypatch):
    cell = replace(CELL, trainable=Trainable.OUTPUT, rate=0.01)
    cached = outcome(cell, body)
    # the same network, whose states are computed anew at every update
    plain = new_task.NewEnds.train_only
    monkeypatch.setattr(
        new_task.NewEnds, "train_only", lambda self, _: plain(self, Trainable.OUTPUT)
    )
    anew = outcome(replace(cell, trainable=Trainable.NORMS), body)
    assert asdict(cached) == pytest.approx(asdict(anew), abs=0.02)


def test_what_is_not_asked_for_is_neither_right_nor_wrong():
    logits = torch.eye(2)[torch.tensor([[0, 1, 1, 0]])]
    assert right(logits, torch.tensor([[0, 0, 1, 0]])) == 0.75
    assert right(logits, torch.tensor([[0, UNASKED, 1, UNASKED]])) == 1


def test_starts_differ_as_they_should_and_the_body_stays(body):
    before = {name: values.clone() for name, values in body.state_dict().items()}
    key = "body.bert.encoder.layer.0.attention.self.query.weight"
    norm = "body.bert.encoder.layer.0.output.LayerNorm.weight"
    found = {}
    for start in Start:
        with network(replace(CELL, start=start), body) as model:
            found[start] = {name: model.state_dict()[name].clone() for name in (key, norm)}
    own = before[key.removeprefix("body.bert.")]
    assert torch.equal(found[Start.TRAINED][key], own)
    assert not torch.equal(found[Start.REDRAWN][key], own)
    assert float(found[Start.REDRAWN][key].std()) == pytest.approx(float(own.std()), rel=0.1)
    assert not torch.equal(found[Start.SCRATCH][key], own)
    outcome(CELL, body)
    assert all(torch.equal(values, before[name]) for name, values in body.state_dict().items())


def test_a_cell_is_trained_once_and_kept(body, monkeypatch, tmp_path):
    monkeypatch.setattr(new_task, "_network", lambda _: body)
    monkeypatch.setattr(new_task, "_digest", lambda _: "tiny")
    cell = replace(CELL, updates=2)
    found = tuned(cell, Store(tmp_path))
    monkeypatch.setattr(new_task, "train", None)
    assert tuned(cell, Store(tmp_path)) == found and found.steps == 2


def test_another_body_is_another_training(body, monkeypatch, tmp_path):
    def network_of(name: str) -> BertModel | Transformer:
        shape = TransformerConfig(20, 20, 1, 0, 32, 64, 2)
        return body if name == new_task.BODY else Transformer(shape).eval()

    monkeypatch.setattr(new_task, "_network", network_of)
    monkeypatch.setattr(new_task, "_digest", lambda name: name)
    cell, store = replace(CELL, updates=2), Store(tmp_path)
    assert tuned(cell, store) != tuned(cell, store, new_task.OURS)
    assert len(list(tmp_path.rglob("outcome.json"))) == 2


def test_a_rate_that_breaks_the_network_ends_it_and_is_never_the_best(body):
    found = outcome(replace(CELL, rate=1e30), body)
    assert math.isnan(found.last) and found.steps < CELL.updates
    assert 0 <= found.validation < 0.4 and math.isfinite(found.loss)


@pytest.mark.parametrize("rate", [0.0, -1e-3, math.nan, math.inf])
def test_a_rate_that_trains_nothing_is_refused_in_one_line(rate):
    with pytest.raises(UserError, match="trains nothing; give one above 0"):
        replace(CELL, rate=rate)
    with pytest.raises(UserError, match="0 updates"):
        replace(CELL, updates=0)
