"""The pages of part 1 on the translation model trained here, from the weights in the book."""

from headbook import paths
from headbook.chapters.chapter import find
from headbook.chapters.page import published_tables
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


def test_small_models_are_not_averaged_with_the_long_training():
    """Its rows change its own facts alone."""
    chapter = find(22)
    tables = published_tables(chapter.name)
    without = {
        name: rows[rows["model"] != OURS] if "model" in rows else rows
        for name, rows in tables.items()
    }
    every, others = chapter.facts(tables), chapter.facts(without)
    assert {name: every[name] for name in others} == others
    assert {name for name in every.keys() - others.keys() if not name.startswith("ours_")} == set()
