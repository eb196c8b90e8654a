"""Page 18 for models trained here, at profile smoke: every table and claim."""

import pytest

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads import _trained_pruning_the_encoder as study
from headbook.chapters.specialised_heads._pruned_tables import BEFORE
from headbook.chapters.sweeps import FURTHER, GATES
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store

PAGE = "18_pruning_the_encoder"


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.trained_here(Config("smoke"), Store.default())


def test_every_claim_of_the_study_has_a_row_for_every_model(tables: Tables):
    known = ledger.load()
    rows = checked(known, tables["claims"], PAGE, "smoke")
    assert set(rows["claim"]) == {each.id for each in known.claims if each.study == PAGE}
    assert not rows.duplicated(["claim", "model"]).any()


def test_the_decoder_keeps_its_heads(tables: Tables):
    points = tables["points"]
    assert set(points["arm"]) >= {BEFORE, FURTHER, GATES}
    assert (points["of"] == 4).all() and (points["kept"] == points["encoder_kept"]).all()
    gates = points[points["arm"] == GATES]
    assert gates["penalty"].is_unique and gates["saturated_share"].between(0, 1).all()


def test_functions_add_up_to_the_heads_kept(tables: Tables):
    functions = tables["functions"]
    parts = functions[["positional", "syntactic", "rare", "none"]].sum(axis=1)
    assert (parts == functions["kept"]).all()
