"""A tiny translator without some of its heads: losses as anywhere else, and BLEU beside itself."""

from pathlib import Path

import numpy as np
import pytest
from small import untrained_model

from headbook.experiments import heads_out
from headbook.looking.effects import loss
from headbook.looking.ours import OurModel

SOURCES = [f"the {who} sees a red ball" for who in ("dog", "cat", "sister", "dog")]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OurModel:
    made = untrained_model(tmp_path / "model")
    found = OurModel("tiny", "here", ("en", "de"), made.untrained(), made.source, made.target)
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(heads_out, "load", lambda name: found)
    monkeypatch.setattr(heads_out, "text_of", lambda *_: ("planted", SOURCES, SOURCES))
    heads_out.prepared.cache_clear()
    return found


def test_losses_are_those_of_the_text(model: OurModel) -> None:
    found = heads_out.silenced("tiny", len(SOURCES), [[], ["L1H1"], []])
    nats, tokens = loss(model, model.batches(SOURCES, SOURCES))
    nearly = pytest.approx(nats, rel=0.02)  # padding is nothing to choose: one word of a few fewer
    assert found["reference"][0] == nearly and (found["reference"][0] < nats).all()
    assert np.array_equal(found["reference_tokens"][0], tokens)
    assert np.array_equal(found["own"][0], found["own"][2])
    assert (found["own"][0] != found["own"][1]).all()
    rows = heads_out.effects(found)
    assert rows["own_added"].iloc[1] == rows["change"].iloc[1] == 0 and rows["p"].iloc[1] == 1


def test_what_was_computed_is_not_computed_again(
    model: OurModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = heads_out.silenced("tiny", len(SOURCES), [["cross L1H2"]])
    monkeypatch.setattr(heads_out, "prepared", None)
    again = heads_out.silenced("tiny", len(SOURCES), [["cross L1H2"]])
    assert all(np.array_equal(first[name], again[name]) for name in first)
