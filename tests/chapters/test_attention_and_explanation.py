"""Page 56: the controls of the adversary, reviews as models read them, and claims by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headbook.chapters.seeing import attention_and_explanation as page
from headbook.chapters.seeing._classifiers import (
    Outputs,
    accuracy,
    outputs,
    reviews,
    trained,
    word_vectors,
)
from headbook.chapters.seeing._explained import agreement, apart, drawn, erasure, stress
from headbook.chapters.seeing.attention_and_explanation import (
    ATTENTION,
    FLOOR,
    LSTM,
    PAIRS,
    RANDOM,
    SEEDS,
    TRANSFORMER,
    UNIFORM,
    Parameters,
    claims,
    compute,
    one_word_decides,
)
from headbook.corpora.rated import PLANTED, load_rated
from headbook.models.pooled import Reader
from headbook.runs.store import Store
from headbook.types import UserError


@pytest.fixture(scope="module")
def text():
    return reviews(PLANTED)


@pytest.fixture(scope="module")
def model(text):
    return trained(text, Reader.WORDS, seed=0, epochs=6)


def test_the_adversary_finds_nothing_where_one_word_decides_and_everything_where_none_does():
    lengths = [6, 9, 14]
    decided = pd.DataFrame(stress(one_word_decides(lengths, seed=0)))
    assert decided["farthest"].max() < 0.05
    equal = [np.full(length, 1 / length) for length in lengths]
    idle = Outputs(np.full(3, 0.5), equal, [np.zeros(length) for length in lengths])
    free = pd.DataFrame(stress(idle))
    assert free["farthest"].tolist() == pytest.approx(free["unbounded"].tolist())
    assert free["permuted"].max() == pytest.approx(0)


def test_a_planted_word_is_learnt_and_without_it_the_decision_falls(text, model):
    pairs = text.test[:40]
    assert accuracy(outputs(model, pairs), pairs) == 1
    key = [np.array(each.polar, dtype=float) for each in load_rated(PLANTED)["test"][:40]]
    orders = {"key": key, RANDOM: drawn([len(ids) for ids, _ in pairs], seed=0)}
    rows = pd.DataFrame(erasure(model, pairs, orders))
    fall = rows.query("share == 0.1").set_index("method")["drop"]
    assert fall["key"] > 0.1 > fall[RANDOM]


def test_imposed_weights_are_those_of_each_sentence(text, model):
    pairs = text.test[:7]
    own = outputs(model, pairs)
    again = outputs(model, pairs, own.weights)
    np.testing.assert_allclose(again.shares, own.shares, atol=1e-6)
    one = [np.eye(len(ids))[0] for ids, _ in pairs]
    first = outputs(model, pairs, one)
    scores = np.array([each[0] for each in own.scores])
    np.testing.assert_allclose(first.shares, 1 / (1 + np.exp(-scores)), atol=1e-6)


def test_agreement_and_distance_by_hand():
    up, down = [np.arange(4.0)], [np.arange(4.0)[::-1]]
    assert agreement(up, up) == 1 and agreement(up, down) == -1
    one = Outputs(np.array([0.2]), [np.array([1.0, 0])], [np.zeros(2)])
    other = Outputs(np.array([0.5]), [np.array([0, 1.0])], [np.zeros(2)])
    assert apart(one, other) == pytest.approx((np.log(2), 0.3))


def test_word_vectors_are_alike_for_words_that_are():
    found = word_vectors("minilm", ["good", "great", "chair", "table", "bad"], 4)
    assert found.shape == (8, 4) and not found[:3].any()
    good, great, chair = found[3], found[4], found[5]
    assert good @ great > good @ chair
    with pytest.raises(UserError, match="no model of transformers"):
        word_vectors("firefox-en-pt", ["good"], 4)


def rows(**values):
    return pd.DataFrame(values)


def tables(farthest):
    agreed = [
        {"model": kind, "of": name, "seed": seed, "tau": tau}
        for kind in (LSTM, TRANSFORMER) for seed in "01"
        for name, tau in zip([*PAIRS, FLOOR, SEEDS.format(ATTENTION)],
                             (0.3, 0.2, 0.7, 0.0, 0.5), strict=True)
    ]  # fmt: skip
    stressed = [
        {"model": kind, "seed": seed, "accuracy": 0.8 - 0.01 * (kind == UNIFORM),
         "permuted": 0.02, "farthest": farthest if kind == UNIFORM else 0.6, "unbounded": 0.65,
         "corpus": "toy"}
        for kind in (LSTM, TRANSFORMER, UNIFORM) for seed in (0, 1)
    ]  # fmt: skip
    falls = {ATTENTION: 0.2, RANDOM: 0.1, "gradient × input": 0.4, "integrated gradients": 0.5,
             "Shapley values": 0.5}  # fmt: skip
    erased = [
        {"model": kind, "seed": seed, "method": name, "share": share, "drop": fall}
        for kind in (LSTM, TRANSFORMER) for seed in (0, 1) for name, fall in falls.items()
        for share in (0.1, 0.5)
    ]  # fmt: skip
    tried = [
        {"model": LSTM, "seed": seed, "strength": strength, "divergence": far, "change": moved}
        for seed in (0, 1) for strength, far, moved in ((0.1, 0.2, 0.03), (0.2, 0.5, 0.2))
    ]  # fmt: skip
    imposed = [
        {"model": "MLP", "seed": seed, "weights": name, "accuracy": right} for seed in (0, 1)
        for name, right in (("uniform", 0.7), ("its own", 0.74), ("the BiLSTM's", 0.75),
                            ("an adversary's", 0.71))
    ]  # fmt: skip
    return {
        "agreement": pd.DataFrame(agreed), "stress": pd.DataFrame(stressed),
        "trainings": rows(model=[LSTM, TRANSFORMER], seed=["0-1"] * 2, divergence=[0.1, 0.2],
                          change=[0.05, 0.05]),
        "erasure": pd.DataFrame(erased), "adversaries": pd.DataFrame(tried),
        "imposed": pd.DataFrame(imposed),
    }  # fmt: skip


def test_claims_by_hand():
    found = claims(tables(0.6)).set_index(["claim", "model"])["value"]
    expected = {
        "explain-gradient": 0.3, "explain-leave-one-out": 0.2, "explain-others-agree": 0.4,
        "explain-permuted": 0.02, "explain-farthest": 0.6, "explain-uniform": 0.01,
        "explain-seeds-nearer": -0.5, "explain-imposed": 0.05, "explain-imposed-adversary": 0.04,
        "explain-consistent": -0.4, "explain-erasure-attention": 0.1,
    }  # fmt: skip
    for claim, value in expected.items():
        assert found[claim, LSTM] == pytest.approx(value), claim
    assert found["explain-erasure-others", f"{LSTM}, gradient × input"] == pytest.approx(0.2)


@pytest.mark.parametrize(("farthest", "closed"), [(0.6, True), (0.2, False)])
def test_the_adversary_says_nothing_where_uniform_weights_pass(farthest, closed):
    found = claims(tables(farthest)).query("claim == 'explain-farthest'")["closed"]
    assert found.str.startswith("diagnostic").tolist() == [closed] * 2


def test_nothing_is_trained_unless_it_is_asked_for(tmp_path):
    assert compute(Parameters(), Store(tmp_path)) == {}
    with pytest.raises(UserError, match="2 or more"):
        compute(Parameters(seeds=1), Store(tmp_path))


@pytest.mark.slow
def test_a_planted_corpus_runs_through_and_is_not_trained_twice(monkeypatch):
    """With the parameters of `smoke`: the notebook's trainings are the test's."""
    parameters = Parameters(PLANTED, seeds=2, epochs=1, sentences=10, vectors="")
    store = Store.default()
    found = compute(parameters, store)
    assert set(found["agreement"]["of"]) >= {*PAIRS, FLOOR}
    assert found["erasure"].groupby(["model", "seed"]).size().eq(25).all()

    def refused(*given):
        raise AssertionError("trained again")

    for name in ("trained", "adversary"):
        monkeypatch.setattr(page, name, refused)
    again = compute(parameters, store)
    for name, table in found.items():
        pd.testing.assert_frame_equal(again[name], table)
    with pytest.raises(AssertionError, match="trained again"):  # one pass more is another training
        compute(replace(parameters, epochs=2), store)
