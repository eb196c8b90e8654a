"""Page 41: costs of models that are known, and the claims by hand."""

import numpy as np
import pandas as pd
import pytest

from headbook.chapters.why.collaborating_heads import (
    ALIKE,
    LARGEST,
    ORDINARY,
    RANDOM,
    SHARED,
    TRAINED,
    Parameters,
    claims,
    compute,
    curves,
    facts,
)
from headbook.runs.store import Store
from headbook.types import UserError


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, pd.DataFrame]:
    parameters = Parameters(models=("firefox-en-pt",), shares=("1/4",), iterations=1, sentences=3)
    return compute(parameters, Store(tmp_path_factory.mktemp("store")))


def test_all_dimensions_cost_nothing_and_a_quarter_something(tables):
    cost = tables["costs"].set_index("way")["value"]
    assert abs(cost[ORDINARY]) < 1e-4 and cost[ALIKE] > 1e-3
    number = tables["costs"].set_index("way")["parameters"]
    # (2 D_in + N_h) D̃_k in each of six layers
    assert number[ORDINARY] == 6 * (2 * 256 + 8) * 256 and number[SHARED] == number[ORDINARY] / 4


def test_shared_terms_fit_better_than_where_they_start(tables):
    left = tables["weights"].pivot(index=["weights", "layer"], columns="way", values="left")
    assert (left[SHARED] < left[LARGEST]).all() and (left[LARGEST] <= left[ALIKE]).all()
    assert set(tables["weights"]["weights"]) == {TRAINED, RANDOM}


def test_curves_start_at_the_ordinary_model_and_facts_are_formatted(tables):
    lines = curves(tables, "firefox-en-pt").groupby("way")["dims"]
    assert (lines.max() == 256).all() and (lines.min() == 64).all()
    assert facts(tables)["firefox_en_pt_trained_shared_quarter_left"].endswith("%")


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
    found = claims(pd.DataFrame(each), pd.DataFrame(weights)).set_index("claim")["value"]
    assert found["collaborating-ordinary-heads"] == pytest.approx(0.02)
    assert found["collaborating-two-thirds"] == pytest.approx(0.11)
    assert found["collaborating-beats-separate"] == pytest.approx(0.3)
    assert found["collaborating-beyond-random"] == pytest.approx(np.mean([0.4, 0.2]) - 0.05)


@pytest.mark.parametrize("wrong", [{"shares": ("3/2",)}, {"iterations": 0}, {"sentences": 1}])
def test_parameters_that_cannot_be_are_refused(wrong, tmp_path):
    with pytest.raises(UserError, match="give"):
        compute(Parameters(**wrong), Store(tmp_path))
