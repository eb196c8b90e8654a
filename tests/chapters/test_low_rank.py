"""Page 42: texts of an exact length, and claims that follow the rows."""

import pandas as pd
import pytest

from headbook.chapters.why._texts import of_length
from headbook.chapters.why.low_rank import RANDOM, REDRAWN, WEIGHTS, claims
from headbook.looking.load import load


def test_texts_have_the_length_and_keep_the_last_special_token():
    for name in ("firefox-en-pt", "minilm"):
        model = load(name)
        first, second = of_length(model, 64, 2)
        assert first.source.shape == second.source.shape == (1, 64)
        assert not first.source.equal(second.source)
        assert first.source[0, -1] == second.source[0, -1]


def test_claims_by_hand():
    rows = [
        {"model": "toy", "length": length, "matrix": matrix, "layer": layer, "head": head,
         "share": 0.5 if length == 64 else 0.25,
         "quarter": {WEIGHTS: 0.8, RANDOM: 0.5, REDRAWN: 0.9}[matrix] + 0.01 * (layer > 1)}
        for length in (64, 256) for matrix in (WEIGHTS, RANDOM, REDRAWN)
        for layer in (1, 2) for head in (1, 2)
    ]  # fmt: skip
    rows += [{**row, "layer": row["layer"] + 2} for row in rows]
    found = claims(pd.DataFrame(rows)).set_index("claim")["value"]
    assert found["low-rank-beyond-random"] == pytest.approx(0.3)
    assert found["low-rank-learnt"] == pytest.approx(-0.1)
    assert found["low-rank-log-length"] == pytest.approx(2)
