"""A tiny translator without some of its heads: losses as anywhere else, and BLEU beside itself."""

from pathlib import Path

import numpy as np
import pytest
from elsewhere import elsewhere
from small import ngrams, untrained_model

from headbook.experiments import heads_out
from headbook.looking.effects import loss

SOURCES = [f"the {who} sees a red ball" for who in ("dog", "cat", "sister", "dog")]


def test_losses_are_those_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = untrained_model(tmp_path / "model")
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(heads_out, "load", lambda name, device=None: model)
    monkeypatch.setattr(heads_out, "text_of", lambda *_: ("planted", SOURCES, SOURCES))
    heads_out.prepared.cache_clear()
    found = heads_out.silenced("tiny", len(SOURCES), [[], ["L1H1"], []])
    nats, tokens = loss(model, model.batches(SOURCES, SOURCES))
    nearly = pytest.approx(nats, rel=0.02)  # padding is nothing to choose: one word of a few fewer
    assert found["reference"][0] == nearly and (found["reference"][0] < nats).all()
    assert np.array_equal(found["reference_tokens"][0], tokens)
    assert np.array_equal(found["own"][0], found["own"][2])
    assert (found["own"][0] != found["own"][1]).all()
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "others"))
    with elsewhere(model.network):
        heads_out.prepared.cache_clear()
        there = heads_out.silenced("tiny", len(SOURCES), [[], ["L1H1"], []])
    for name, each in found.items():
        np.testing.assert_allclose(there[name], each, rtol=1e-5)
    rows = heads_out.effects(found)
    assert rows["own_added"].iloc[1] == rows["change"].iloc[1] == 0 and rows["p"].iloc[1] == 1


def test_however_many_heads_are_tested_one_that_is_missed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """24 times the smallest p of a thousand samples is above the level already."""
    monkeypatch.setattr(heads_out, "SAMPLES", 1000)
    found = heads_out.changes(np.stack([ngrams(good) for good in (0.9, 0.6, *[0.9] * 23)]))
    assert (found["p_holm"] < heads_out.LEVEL).tolist() == [True, *[False] * 23]
    assert found["p_holm"].min() == pytest.approx(min(24 * found["p"].min(), 1))
