"""Classifiers of planted reviews: one word decides, and models, adversaries and methods find it."""

from dataclasses import replace

import numpy as np
import pytest

from headbook.corpora.rated import KEYS
from headbook.experiments import explained
from headbook.experiments.pooling import Outputs, Setting, outputs, reviews, train

MLP = Setting("MLP", epochs=6, corpus="planted")
TEXT = reviews("planted")
PAIRS = TEXT.test[:12]


@pytest.fixture(scope="module")
def model():
    return train(MLP)


def deciding(ids):
    return np.array([TEXT.words[each] in KEYS for each in ids])


def test_a_planted_word_is_learnt_and_the_logit_is_the_mean_of_scores(model):
    found = outputs(model, TEXT.test)
    assert found.accuracy(TEXT.test) == 1
    logits = [a @ s for a, s in zip(found.weights, found.scores, strict=True)]
    np.testing.assert_allclose(found.p, 1 / (1 + np.exp(-np.array(logits))), atol=1e-6)
    for (ids, _), scores in zip(TEXT.test, found.scores, strict=True):
        assert deciding(ids)[abs(scores).argmax()]


def test_imposed_weights_are_those_of_each_sentence(model):
    own = outputs(model, PAIRS)
    np.testing.assert_allclose(outputs(model, PAIRS, own.weights).p, own.p, atol=1e-6)
    first = outputs(model, PAIRS, [np.eye(len(ids))[0] for ids, _ in PAIRS])
    scores = np.array([each[0] for each in own.scores])
    np.testing.assert_allclose(first.p, 1 / (1 + np.exp(-scores)), atol=1e-6)


def test_an_adversary_has_other_weights_the_farther_the_stronger_and_imposed_ones_are_learnt_with():
    base = replace(MLP, epochs=2)
    found = explained.adversaries(base, [0.0, 0.5], PAIRS)
    assert found["divergence"].is_monotonic_increasing and found["change"].between(0, 1).all()
    pooled = explained.imposed(base, 0.5).set_index("weights")["accuracy"]
    assert pooled["the BiLSTM's"] >= pooled["an adversary's"]


def test_distances_by_hand():
    one = Outputs(np.array([0.2]), [np.array([1.0, 0])], [np.zeros(2)])
    other = Outputs(np.array([0.5]), [np.array([0, 1.0])], [np.zeros(2)])
    assert explained.apart(one, other) == pytest.approx({"divergence": np.log(2), "change": 0.3})


@pytest.mark.parametrize("method", explained.METHODS)
def test_every_method_ranks_the_deciding_word_first(model, method):
    for (ids, _), values in zip(PAIRS, explained.attributed(model, PAIRS, method), strict=True):
        assert len(values) == len(ids) and deciding(ids)[values.argmax()]
