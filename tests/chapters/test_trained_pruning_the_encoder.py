"""Page 18 for models trained here, at profile smoke: every table and claim."""

import pandas as pd
import pytest

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads import _trained_pruning_the_encoder as study
from headbook.chapters.specialised_heads._pruned_tables import BEFORE
from headbook.chapters.specialised_heads._pruning_views import kept_at
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


def test_a_head_is_counted_at_every_penalty_that_keeps_it() -> None:
    """Heads of the first layer alone are kept by both, one of the second by one, one by none."""
    rows = [("nothing closed", "L1H1 L1H2 L2H1 L2H2"), ("gates", "L1H1 L1H2 L2H2"),
            ("gates", "L1H1 L1H2"), ("random heads", "L2H1")]  # fmt: skip
    found = kept_at(pd.DataFrame(rows, columns=["arm", "encoder_heads"]))
    assert found["kept_at"].tolist() == ["2", "2", "0", "1"]
    assert found["kept_share"].tolist() == [1, 1, 0, 0.5]
    assert found[["layer", "head"]].to_numpy().tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    none = [("nothing closed", "L1H1"), ("gates", float("nan"))]  # an empty cell of a file
    assert kept_at(pd.DataFrame(none, columns=["arm", "encoder_heads"]))["kept_share"][0] == 0
