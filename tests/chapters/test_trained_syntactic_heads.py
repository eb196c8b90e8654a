"""Study 13 on one tiny model of the controlled corpus, whose trees are gold."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.heads import HeadsRun, measured
from headbook.artefacts.model import trained
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, text_of
from headbook.chapters.specialised_heads import _trained_syntactic_heads as study
from headbook.chapters.specialised_heads._head_tables import verbs_lead
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.measure import Selection, best_head
from headbook.runs.store import Store
from headbook.trees import RELATION_DIRECTIONS

PAGE = "13_syntactic_heads"

SMOKE = Config(profile="smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return study.trained_here(SMOKE, store)


@pytest.fixture(scope="module")
def measurement(tables: Tables, store: Store) -> Measurement:
    """The trained model on its held-out text, as `compute` measured it."""
    model = trained(SMOKE.one_model(), store)
    text = text_of(model, HELD_OUT, SMOKE, store)
    run = HeadsRun(HELD_OUT)
    return Measurement(model, text, run, measured(model, text, run, store))


def named(measurement: Measurement, corpus: str, target: str, seed: int = 0) -> Measurement:
    """The same measurement under another corpus' name."""
    model = measurement.trained
    run = replace(model.run.with_seed(seed), corpus=corpus)
    data = replace(model.corpus, target_language=target)
    return replace(measurement, trained=replace(model, run=run, corpus=data))


def test_every_relation_direction_of_both_updates_is_there(tables: Tables) -> None:
    best = tables["best"]
    assert len(best) == 2 * len(RELATION_DIRECTIONS)
    assert set(best["update"]) == {"best", "0"}
    assert best["value"].between(0, 1).all()
    assert (best["low"] <= best["value"]).all() and (best["value"] <= best["high"]).all()


def test_choosing_on_everything_is_no_worse_than_any_head(
    tables: Tables, measurement: Measurement
) -> None:
    rows = tables["best"].query("update == 'best'")
    every = measurement.sums["syntactic"].ratio().flatten(0, 1)
    np.testing.assert_allclose(rows["everything"], every.amax(0))
    chosen = best_head(measurement.sums["syntactic"], Selection.EVERYTHING)
    np.testing.assert_allclose(rows["everything"], chosen.score)


def test_claims_are_valid_and_have_the_tables_numbers(tables: Tables) -> None:
    rows = checked(ledger.load(), tables["claims"], PAGE, "smoke").set_index("claim")
    assert len(rows) == len(RELATION_DIRECTIONS) + 1
    best = tables["best"].query("update == 'best'").set_index(["relation", "direction"])
    for (relation, direction), row in best.iterrows():
        claim = rows.loc[f"voita-t1-{relation}-{direction.replace('_', '-')}"]
        assert claim["value"] == row["value"]
        assert claim["baseline"] == row["baseline"]


def test_the_lead_of_the_verbs_relations_is_that_of_the_table(tables: Tables) -> None:
    best = tables["best"].query("update == 'best'")
    margin = (best["value"] - best["baseline"]).clip(lower=0)
    verbs = best["relation"].isin(["nsubj", "dobj"])
    row = tables["claims"].set_index("claim").loc["voita-f4-verb-relations-strongest"]
    assert row["value"] == pytest.approx(margin[verbs].mean() - margin[~verbs].mean())
    assert row["low"] <= row["value"] <= row["high"]


def test_relations_below_their_offset_lead_nothing() -> None:
    known = pd.DataFrame({"value": 0.5, "low": 0.4, "high": 0.6, "baseline": 0.9}, range(8))
    assert verbs_lead(known) == (0, 0, 0)
    known.loc[:3, "baseline"] = 0.3
    # the mean of four independent numbers has half of the interval of one
    assert verbs_lead(known) == pytest.approx((0.2, 0.15, 0.25))


def test_short_models_are_paired_with_long_ones_of_the_same_target(
    measurement: Measurement,
) -> None:
    short, other = (named(measurement, name, "de") for name in ("tatoeba-de", "msdocs-de"))
    far = named(measurement, "msdocs-ru", "ru")
    (row,) = study._domain_claims([short, far, other])
    assert row["model"] == f"{short.labels['model']} minus {other.labels['model']}"
    assert (row["corpus"], row["value"]) == ("tatoeba-de", 0)
    assert row["low"] < 0 < row["high"]  # the same numbers, resampled independently
    (row,) = study._domain_claims([short, far])
    assert "msdocs-ru" in row["model"]
    assert not list(study._domain_claims([short]))


def test_every_pair_of_seeds_has_a_row_of_its_own(measurement: Measurement) -> None:
    of = [named(measurement, name, "de", seed)
          for name in ("tatoeba-de", "msdocs-de") for seed in (0, 1)]  # fmt: skip
    rows = pd.DataFrame(study._domain_claims(of))
    assert len(checked(ledger.load(), rows, PAGE, "here")) == 4


def test_computing_again_gives_the_same_tables(tables: Tables, store: Store) -> None:
    for name, table in study.trained_here(SMOKE, store).items():
        pd.testing.assert_frame_equal(table, tables[name])
