"""Roles by target language on the three controlled orders, and on planted scores."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measurements
from headbook.chapters.specialised_heads import _trained_three_languages as study
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.roles import Role
from headbook.runs.store import Store

PAGE = "15_three_languages"

CONFIG = Config("smoke")
HEADS = 4


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return study.trained_here(CONFIG, store)


@pytest.fixture(scope="module")
def measured(store: Store, tables: Tables) -> list[Measurement]:
    return list(measurements(CONFIG, store))


def with_roles(measurement: Measurement, heads: int, seed: int = 0) -> study.Roles:
    """The first so many of four heads are positional, in every replicate."""
    trained = replace(measurement.trained, run=measurement.trained.run.with_seed(seed))
    held = torch.zeros(3, 2, 2, dtype=torch.bool)
    held.view(3, HEADS)[:, :heads] = True
    none = torch.zeros_like(held)
    roles = {Role.POSITIONAL: held, Role.SYNTACTIC: none, Role.RARE: none}
    margins = torch.zeros(3, 8, dtype=torch.float64)
    margins[:, :heads] = 0.1
    return study.Roles(replace(measurement, trained=trained), roles, margins)


def test_seeds_are_averaged_before_languages_are_compared(measured: list[Measurement]) -> None:
    sov, svo, _ = measured
    models = [with_roles(sov, 4), with_roles(sov, 2, seed=1), with_roles(svo, 1)]
    (row,) = study._claims_of_collections(models)
    assert row["value"] == pytest.approx(0.75 - 0.25)
    assert (row["model"], row["corpus"]) == ("controlled", "controlled-sov")
    assert row["target"] == "sov+svo"


def test_one_language_alone_makes_no_comparison(measured: list[Measurement]) -> None:
    models = [with_roles(measured[0], 4), with_roles(measured[0], 1, seed=1)]
    assert not list(study._claims_of_collections(models))


def test_functions_and_tracked_relations_are_counted(measured: list[Measurement]) -> None:
    claims = {
        row["claim"]: row["value"] for row in study._claims_of_models([with_roles(measured[0], 3)])
    }
    assert claims == {"voita-f2-roles-in-every-language": 1, "voita-f4-syntax-in-every-language": 3}


def test_tables_tell_the_orders_apart(tables: Tables) -> None:
    counts = tables["counts"]
    assert set(counts["language"]) == {"sov", "svo", "vso"}
    assert set(counts["collection"]) == {"controlled"}
    assert set(counts["role"]) == {*map(str, Role), study.ANY}
    assert len(counts) == 3 * 2 * 4


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    claims = checked(ledger.load(), tables["claims"].astype({"seed": str}), PAGE, "test")
    mine = {claim.id for claim in ledger.load().claims if claim.study == PAGE}
    assert set(claims["claim"]) == mine
    # Models of this size have no role, and having none alike is no agreement between languages.
    roleless = claims["claim"] == "voita-f2-same-share-of-roles"
    assert not tables["counts"].query("update == 'best'")["heads_with_role"].any()
    assert claims["value"].isna().tolist() == roleless.tolist()
    assert len(claims) == 3 * 2 + 1


def test_computing_twice_gives_equal_tables(store: Store, tables: Tables) -> None:
    again = study.trained_here(CONFIG, store)
    for name, table in tables.items():
        pd.testing.assert_frame_equal(table, again[name])
