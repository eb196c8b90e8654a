"""The pages of part 4 on a model trained here, from the weights that come with the book."""

from pathlib import Path

import pytest

from headbook import paths
from headbook.chapters.chapter import find
from headbook.claims import scorecard
from headbook.claims.rule import Outcome
from headbook.runs.store import Store

OURS = "mixture-fr-256-masked"
SMALL = {46: {"sentences": 2}}


@pytest.mark.parametrize("number", SMALL, ids=str)
def test_a_page_measures_our_own_model(number: int, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    chapter = find(number)
    given = chapter.parameters_from({"models": [OURS], **SMALL[number]})
    tables = chapter.compute(given, Store.default())
    rows = next(table for table in tables.values() if "model" in table)
    assert OURS in set(rows["model"]) and not rows.isna().all().any()


def test_a_young_model_is_no_evidence_for_or_against_a_work():
    """Its published rows are of its own corpus, and the gate for convergence is closed to each."""
    rows = scorecard.tidy(paths.RESULTS)
    own = rows[(rows["model"] == OURS) & rows["study"].str.contains("^46_")]
    assert {int(study[:2]) for study in own["study"]} == SMALL.keys()
    assert set(own["outcome"]) == {Outcome.CLOSED} and set(own["corpus"]) == {"mixture-fr"}
    assert own["closed"].str.contains("converged").all()
