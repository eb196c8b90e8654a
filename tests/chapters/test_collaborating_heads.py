"""Page 41: costs of models that are known, and the claims by hand."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.why._collaborating_from_scratch import (
    COLLABORATIVE,
    CONCATENATED,
    claim_rows,
    recalled,
)
from headbook.chapters.why.collaborating_heads import (
    ALIKE,
    LARGEST,
    ORDINARY,
    RANDOM,
    SHARED,
    TRAINED,
    Parameters,
    Translation,
    claims,
    compute,
    curves,
    facts,
)
from headbook.claims.gates import NONE
from headbook.looking.load import load
from headbook.models.capture import Point
from headbook.models.edits import edited
from headbook.runs.store import Store
from headbook.types import Kind, UserError


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pd.DataFrame]:
    parameters = Parameters(models=("minilm",), shares=("1/4",), iterations=1, sentences=3)
    return compute(parameters, Store(tmp_path_factory.mktemp("store")))


def test_all_dimensions_cost_nothing_and_a_quarter_something(tables):
    cost = tables["costs"].set_index("way")["value"]
    assert abs(cost[ORDINARY]) < 1e-4 and cost[ALIKE] > 1e-3
    number = tables["costs"].set_index("way")["parameters"]
    # (2 D_in + N_h) D̃_k in each of six layers
    assert number[ORDINARY] == 6 * (2 * 384 + 12) * 384 and number[SHARED] == number[ORDINARY] / 4


def test_shared_terms_fit_better_than_where_they_start(tables):
    left = tables["weights"].pivot(index=["weights", "layer"], columns="way", values="left")
    assert (left[SHARED] < left[LARGEST]).all() and (left[LARGEST] <= left[ALIKE]).all()
    assert set(tables["weights"]["weights"]) == {TRAINED, RANDOM}


def test_curves_start_at_the_ordinary_model_and_facts_are_formatted(tables):
    lines = curves(tables, "minilm").groupby("way")["dims"]
    assert (lines.max() == 384).all() and (lines.min() == 96).all()
    assert facts(tables)["minilm_trained_shared_quarter_left"].endswith("%")


def test_a_translation_model_is_read_by_its_loss_and_its_own_translations_have_full_bleu():
    model = load("firefox-en-pt")
    sentences = ["It rains a lot here .", "The dog sees a small red ball ."]
    reader = Translation(model, sentences, model.translate(sentences))
    assert np.allclose(reader.cost(), 0) and reader.bleu(2)["bleu"] == pytest.approx(100)
    with torch.no_grad(), edited(model.network, {(Kind.ENCODER, 0): {Point.CONTEXT: lambda x: -x}}):
        assert reader.cost().mean() > 0.1
        assert reader.bleu(2)["difference"] < -10


def test_claims_by_hand():
    each = [
        {"model": "toy", "way": way, "share": share, "sentence": sentence,
         "cost": cost + 0.01 * sentence}
        for way, share, cost in ((ORDINARY, 1.0, 0.0), (SHARED, 0.66, 0.1), (SHARED, 0.5, 0.2),
                                 (ALIKE, 0.5, 0.5))
        for sentence in range(3)
    ]  # fmt: skip
    weights = [
        {"model": "toy", "weights": kind, "layer": layer, "way": way, "share": 0.5, "left": left}
        for kind, layer, shared in ((TRAINED, 1, 0.1), (TRAINED, 2, 0.3), (RANDOM, 0, 0.45))
        for way, left in ((SHARED, shared), (LARGEST, 0.5), (ALIKE, 0.6))
    ]  # fmt: skip
    found = pd.DataFrame(claims(pd.DataFrame(each), pd.DataFrame(weights)))
    found = found.set_index("claim")["value"]
    assert found["collaborating-ordinary-heads"] == pytest.approx(0.02)
    assert found["collaborating-two-thirds"] == pytest.approx(0.11)
    assert found["collaborating-beats-separate"] == pytest.approx(0.3)
    assert found["collaborating-beyond-random"] == pytest.approx(np.mean([0.4, 0.2]) - 0.05)


@pytest.mark.parametrize("wrong", [{"shares": ("3/2",)}, {"iterations": 0}, {"sentences": 1}])
def test_parameters_that_cannot_be_are_refused(wrong, tmp_path):
    with pytest.raises(UserError, match="give"):
        compute(Parameters(**wrong), Store(tmp_path))


def test_attention_of_all_dimensions_learns_to_recall_and_the_better_rate_is_taken():
    few, many = (recalled(COLLABORATIVE, 64, 3e-3, updates, 0) for updates in (2, 120))
    assert few["right"] < 0.3 and many["right"] > 0.9 and many["loss"] < few["loss"]


def test_the_claim_from_scratch_is_of_the_fewest_dimensions_at_the_better_rate():
    rows = [
        {"heads": kind, "dims": dims, "rate": rate, "seed": seed, "loss": 1 - right,
         "right": right - 0.01 * seed * (dims == 64)}
        for kind, eighth in ((COLLABORATIVE, 0.9), (CONCATENATED, 0.6))
        for dims, full in ((64, 1.0), (8, eighth))
        for rate, right in ((3e-3, full), (1e-2, full - 0.5))
        for seed in range(3)
    ]  # fmt: skip
    found = pd.DataFrame(claim_rows(pd.DataFrame(rows)))
    assert found["value"].to_numpy() == pytest.approx([0.3] * 3)
    assert set(found["closed"]) == {NONE}
    useless = pd.DataFrame(rows).assign(right=1.0)
    assert pd.DataFrame(claim_rows(useless))["closed"].str.startswith("diagnostic").all()
