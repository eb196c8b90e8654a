"""Asymmetry of models trained here at profile smoke: versions, ties and claims."""

import pandas as pd
import pytest

from headbook.chapters.anatomy import _trained_anatomy as anatomy
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.claims.ledger import load
from headbook.claims.scorecard import checked
from headbook.runs.store import Store

PAGE = "01_anatomy"

CONFIG = Config("smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return anatomy.trained_here(CONFIG, store)


def test_tied_heads_are_symmetric_and_others_are_not(tables: Tables) -> None:
    shares = tables["asymmetry"].set_index("version")
    assert len(shares) == 3 * 2 * 2
    assert (shares.loc["tied", ["scores", "projections"]] < 1e-6).all(axis=None)
    for version in ("trained", "untrained"):
        of_version = shares.loc[version]
        assert (of_version["projections"] > 0.2).all()
        assert (of_version["scores"] > 1e-5).all()
        assert (of_version["low"] <= of_version["scores"]).all()
        assert (of_version["scores"] <= of_version["high"]).all()


def test_the_claims_are_the_heads_at_the_edge(tables: Tables) -> None:
    claims = checked(load(), tables["claims"].astype({"seed": str}), PAGE, "test")
    found = claims.set_index("claim")
    shares = tables["asymmetry"].set_index("version")["scores"]
    assert found.loc["why-scores-not-symmetric", "value"] == pytest.approx(shares["trained"].min())
    assert found.loc["why-tied-scores-symmetric", "value"] == pytest.approx(shares["tied"].max())
    assert (found["low"] <= found["value"]).all()
    assert (found["value"] <= found["high"]).all()


def test_computing_again_gives_the_same_tables(tables: Tables, store: Store) -> None:
    again = anatomy.trained_here(CONFIG, store)
    assert again.keys() == tables.keys()
    for name, table in tables.items():
        pd.testing.assert_frame_equal(again[name], table)
