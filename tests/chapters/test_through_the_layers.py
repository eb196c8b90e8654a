"""Page 52: rank correlations by hand, and claims that follow the rows."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.seeing.through_the_layers import (
    ALL,
    AS_IS,
    BLANK,
    FLOW,
    NEAR,
    OTHERS,
    POOLED,
    RAW,
    REDRAWN,
    ROLLOUT,
    WORDS,
    Parameters,
    agreement,
    claims,
    compute,
    short,
)
from headbook.looking.load import load
from headbook.runs.store import Store
from headbook.types import UserError


def test_agreement_is_over_the_counted_words_and_nothing_ranks_nothing():
    effect = [4.0, 3.0, 2.0, 1.0, 9.0]
    scores = torch.tensor([[effect, [0.4, 0.3, 0.2, 0.1, 0.0], [1, 2, 3, 4, 5.0], [1.0] * 5],
                           [effect, effect, effect, effect]], dtype=torch.float64)  # fmt: skip
    counted = torch.tensor([[True] * 4 + [False], [True, True, False, False, False]])
    found = agreement(scores, counted)  # the second output sees too few words to count
    assert found[0].tolist() == pytest.approx([1, 1, -1, 0])
    assert np.isnan(agreement(scores, ~counted)).all()


def test_claims_compare_the_last_layer_of_the_trained_output():
    value = {(AS_IS, RAW, 1): 0.6, (AS_IS, RAW, 2): 0.1, (AS_IS, ROLLOUT, 1): 0.3,
             (AS_IS, ROLLOUT, 2): 0.7, (AS_IS, FLOW, 1): 0.3, (AS_IS, FLOW, 2): 0.4,
             (AS_IS, NEAR, 1): 0.2, (AS_IS, NEAR, 2): 0.2}  # fmt: skip
    rows = [
        {"model": "minilm", "form": form, "weights": weights, "effect": BLANK, "among": among,
         "method": method, "layer": layer, "sentence": sentence,
         "value": value[AS_IS, method, layer] - 0.2 * (weights == REDRAWN) - 0.1 * (form == WORDS)}
        for weights, (form, among) in product((AS_IS, REDRAWN), ((WORDS, OTHERS), (POOLED, ALL)))
        for (_, method, layer), sentence in product(value, range(3))
    ]  # fmt: skip
    found = claims(pd.DataFrame(rows)).set_index("claim")["value"]
    assert found["rollout-blank-out"] == pytest.approx(0.7)
    assert found["rollout-beats-raw"] == pytest.approx(0.6)
    assert found["flow-beats-raw"] == pytest.approx(0.3)
    assert found["rollout-grows"] == pytest.approx(0.4)
    assert found["raw-first-layer-only"] == pytest.approx(0.5)
    assert found["rollout-learnt"] == pytest.approx(0.2)
    assert found["rollout-beyond-nearness"] == pytest.approx(0.5)
    assert claims(pd.DataFrame(rows).assign(model="a reader's model")).empty
    ours = claims(pd.DataFrame(rows).assign(model="mixture-fr-256-masked"))
    assert len(ours) == 7 and set(ours["corpus"]) == {"mixture-fr"} and set(ours["closed"]) == {""}


def test_a_student_has_three_outputs(tmp_path):
    found = compute(Parameters(("firefox-en-pt",), sentences=2), Store(tmp_path))["correlations"]
    layers = found.groupby("form")["layer"].max()
    assert layers.to_dict() == {"sentence vector": 6, "each word": 6, "translation": 2}
    assert found["value"].between(-1, 1).all()


def test_sentences_are_of_the_models_language_and_short(tmp_path):
    file = tmp_path / "own.txt"
    file.write_text("Only two words\nAll of these words are here\nAll of these words are there\n")
    student = load("firefox-en-pt")
    expected = [f"All of these words are {end}" for end in ("here", "there")]
    assert short(student, [str(file)], 5) == expected
    with pytest.raises(UserError, match="name a text of that language"):
        short(load("firefox-pt-en"), ["ewt-sample"], 5)
    with pytest.raises(UserError, match="not measured here"):
        compute(Parameters(effects=("blankout",)), Store(tmp_path))
