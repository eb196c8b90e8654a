"""Page 61: marks on tokens, what fine-tuning changes, sets of heads, and contributions by hand."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.corpora.rated import Rated, planted
from headbook.experiments import removed_first
from headbook.experiments.fine_tuning import Sentences, fitted, importance, tuned
from headbook.experiments.removed_first import NONE, scored
from headbook.looking.load import load
from headbook.models.gates import FixedGate, all_heads

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def test():
    return Sentences(planted(8, seed=9))


@pytest.fixture(scope="module")
def before():
    return fitted(load("minilm"), Sentences(planted(20, seed=1)))


def test_marks_lie_on_the_tokens_of_the_words():
    words = ("Do", "n't", "miss", "unputdownable", "films", ".")
    sentence = Sentences([Rated(words, (2, 2, 1, 4, 2, 2), 4)])
    model = load("minilm")
    pieces = np.array(model.pieces(sentence.texts[0]))
    polar, negators = (sentence.marks(model, which)[0].numpy() for which in ("polar", "negators"))
    assert pieces[polar][0] == "miss" and "films" not in pieces[polar]
    assert "".join(pieces[polar][1:]).replace("##", "") == "unputdownable"
    assert 1 <= negators.sum() <= 3 and not (polar & negators).any()


def test_the_fitted_layer_is_logistic_regression(before, test):
    accuracy, nats = scored(before, test, [])
    assert accuracy == 1 and nats < 0.3
    _, without = scored(before, test, all_heads(before.model.network))
    assert without > nats


def test_importance_is_the_derivative_by_a_heads_gate(before, test):
    one = Sentences(test.rated[:1])
    (batch,) = before.model.batches(one.texts)
    block = next(block for _, layer, block in before.model.network.attentions() if layer == 3)
    nats = []
    for step in (-1e-2, 1e-2):
        gate = torch.ones(12)
        gate[5] += step
        block.gate = FixedGate(gate)
        nats.append(float(before.losses(batch, one.labels).detach()))
    block.gate = None
    found = importance(before, one)
    assert found[3, 5] == pytest.approx(abs(nats[1] - nats[0]) / 2e-2, rel=0.05)


def test_tuning_lowers_the_loss_and_is_the_same_again(test):
    found = [tuned(load("minilm"), Sentences(planted(12, seed=2)), 0, 48) for _ in range(2)]
    once, again = (scored(each, test, []) for each in found)
    assert once == again and once[1] < 0.65


def test_contributions_by_hand():
    """Two layers of two heads: the first of each has a role, and twice and eight times the rest."""
    rows = [(1, 1, 1.0, 2.0), (1, 2, 2.0, 1.0), (2, 1, 1.0, 8.0), (2, 2, 1.0, 1.0)]
    heads = pd.DataFrame(rows, columns=["layer", "head", "polar", "importance"]).assign(seed="0")
    roles = pd.DataFrame({"layer": [1, 2], "head": [1, 1]})
    found = removed_first.contributions(heads, roles).loc["0"]
    assert found.to_dict() == pytest.approx({"all": 2, "lower": 1, "upper": 3, "polar": -1})


def test_what_learnt_nothing_is_asked_only_how_far_heads_moved():
    seeds = pd.DataFrame({("accuracy", NONE): [0.5, 0.52, 0.51], ("larger", NONE): 0.55})
    held = pd.Series([4, 5, 6, 1])
    assert removed_first.unjudged("last layers", seeds, held, 6) == ""
    assert removed_first.unjudged("polar", seeds, held, 6).startswith("present")
    learnt = seeds.assign(**{}) + 0.2 * (seeds.columns.get_level_values(0) == "accuracy")
    assert removed_first.unjudged("polar", learnt, held, 6) == ""
    assert removed_first.unjudged("specialised later", learnt, held[1:], 6).startswith("present")
