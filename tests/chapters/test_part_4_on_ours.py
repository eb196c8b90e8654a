"""The pages of part 4 on a model trained here, from the weights that come with the book."""

from headbook import paths
from headbook.claims import scorecard
from headbook.claims.rule import Outcome

OURS = "mixture-fr-256-masked"


def test_a_young_model_is_no_evidence_for_or_against_a_work():
    """Its published rows are of its own corpus, and the gate for convergence is closed to each."""
    rows = scorecard.tidy(paths.RESULTS)
    own = rows[(rows["model"] == OURS) & rows["study"].str.contains("^46_")]
    assert {int(study[:2]) for study in own["study"]} == {46}
    assert set(own["outcome"]) == {Outcome.CLOSED} and set(own["corpus"]) == {"mixture-fr"}
    assert own["closed"].str.contains("converged").all()
