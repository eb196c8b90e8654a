"""The pages of part 1 on the translation model trained here, from the weights in the book."""

from dataclasses import replace
from pathlib import Path

import pytest

from headbook import paths
from headbook.chapters.chapter import find
from headbook.chapters.page import published_tables
from headbook.chapters.specialised_heads._released import ENGLISH, read, trees_of
from headbook.chapters.specialised_heads._role_claims import role_claims
from headbook.chapters.specialised_heads._roles import Roles
from headbook.claims import scorecard
from headbook.claims.rule import Outcome
from headbook.looking.load import load
from headbook.runs.store import Store

OURS = "mixture-fr-256"
PAGES = {11: 20, 16: 1}
"""Numbers, and the sentences that a page is tried on."""


@pytest.mark.parametrize(("number", "sentences"), PAGES.items())
def test_a_page_measures_our_own_model(number: int, sentences: int, tmp_path: Path):
    chapter = find(number)
    tables = chapter.compute(
        chapter.parameters_from({"models": [OURS], "sentences": sentences}), Store(tmp_path)
    )
    rows = next(table for table in tables.values() if "model" in table)
    assert set(rows["model"]) == {OURS}


def test_rows_of_ours_are_of_its_corpus_and_seed_and_leave_the_gates_to_the_ledger():
    reading = read(load(OURS), "ewt-sample", trees_of("ewt-sample", 20))
    rows = list(role_claims(Roles.of(replace(reading, text=ENGLISH))))
    assert {(row["corpus"], row["seed"], row["target"]) for row in rows} == {
        ("mixture-fr", 0, "fr")
    }
    assert not {row["closed"] for row in rows} & {"none"}


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


@pytest.mark.parametrize("number", [16, 22])
def test_small_models_are_not_averaged_with_the_long_training(number: int):
    """Its rows change its own facts alone."""
    chapter = find(number)
    tables = published_tables(chapter.name)
    without = {
        name: rows[rows["model"] != OURS] if "model" in rows else rows
        for name, rows in tables.items()
    }
    every, others = chapter.facts(tables), chapter.facts(without)
    assert {name: every[name] for name in others} == others
    assert {name for name in every.keys() - others.keys() if not name.startswith("ours_")} == set()
