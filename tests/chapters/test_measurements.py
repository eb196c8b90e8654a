"""The labels of measured heads, and the rows of claims made of them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headbook.artefacts.heads import HeadsRun
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.texts import Text
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement
from headbook.chapters.tables import claim_row
from headbook.corpora.readers import Pairs, ParallelCorpus
from headbook.corpora.report import Report


@pytest.fixture
def measurement(tmp_path: Path) -> Measurement:
    none = Pairs((), ())
    corpus = ParallelCorpus("mine", "de", none, none, {}, "", Report())
    run = replace(Config("smoke").one_model(), corpus=str(tmp_path / "mine")).with_seed(5)
    text = Text("held-out", (), (), (), "gold")
    return Measurement(TrainedModel(run, tmp_path, corpus), text, HeadsRun("held-out"), {})


def test_labels_name_model_update_and_text(measurement: Measurement):
    assert measurement.labels == {
        "model": "mine w16 s5", "corpus": "mine", "target": "de", "seed": 5, "update": "best",
        "text": "held-out", "parser": "gold",
    }  # fmt: skip
    before = replace(measurement, run=HeadsRun("held-out", 0))
    assert before.labels["update"] == "0"


def gaps(row: dict) -> Iterator[str]:
    return (name for name, value in row.items() if isinstance(value, float) and math.isnan(value))


def test_a_claims_row_has_the_labels_and_gaps_for_what_is_not_given(measurement: Measurement):
    row = claim_row("some-claim", measurement.labels, 0.5, baseline=0.2)
    assert list(row) == ["claim", "model", "corpus", "target", "seed", "value", "low", "high",
                         "baseline"]  # fmt: skip
    assert list(gaps(row)) == ["low", "high"] and row["seed"] == 5
