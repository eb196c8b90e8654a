"""The pages of part 5 on a model trained here, from the weights that come with the book."""

from pathlib import Path

import pytest

from headbook import paths
from headbook.chapters.chapter import find
from headbook.claims import scorecard
from headbook.claims.rule import Outcome
from headbook.runs.store import Store

OURS = ["mixture-fr-256-masked"]
SMALL = {
    50: {"sentences": 8},
    51: {"sentences": 4},
    52: {"sentences": 2},
    54: {"sentences": 30},
    55: {"sentences": 60},
    57: {"sentences": 2, "pairs": 1},
    58: {"sentences": 3},
}


@pytest.mark.parametrize("number", SMALL, ids=str)
def test_a_page_measures_our_own_model(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    chapter = find(number)
    parameters = chapter.parameters_from({"models": OURS, **SMALL[number]})
    tables = chapter.compute(parameters, Store.default())
    named = {model for table in tables.values() if "model" in table for model in table["model"]}
    assert named == set(OURS)


def test_a_young_model_is_no_evidence_for_or_against_a_work():
    """Its published rows are of its own corpus, and the gate for convergence is closed to each."""
    rows = scorecard.tidy(paths.RESULTS)
    own = rows[rows["model"].isin(OURS) & rows["study"].str.startswith("5")]
    assert {int(study[:2]) for study in own["study"]} >= {50, 51, 52}
    assert set(own["outcome"]) == {Outcome.CLOSED} and set(own["corpus"]) == {"mixture-fr"}
    assert own["closed"].str.contains("converged|present|diagnostic").all()
