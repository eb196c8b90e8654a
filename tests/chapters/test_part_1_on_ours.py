"""The pages of part 1 on the translation model trained here, from the weights in the book."""

from headbook import paths
from headbook.claims import scorecard
from headbook.claims.rule import Outcome

OURS = "mixture-fr-256"


def test_the_model_that_converged_is_evidence_about_roles():
    """Its published rows are of its own corpus; where a gate is closed it is not that of a model
    under way."""
    rows = scorecard.tidy(paths.RESULTS)
    about_roles = rows["study"].str[:2].isin(["11", "13", "14"])
    own = rows[(rows["model"] == OURS) & about_roles]
    assert own["study"].nunique() == 3
    assert set(own["corpus"]) == {"mixture-fr"}
    assert {Outcome.PASS, Outcome.FAIL} <= set(own["outcome"])
    closed = own[own["outcome"] == Outcome.CLOSED]
    assert len(closed) > 1 and not closed["closed"].str.contains("converged").any()
