"""Pruning by importance, of a model whose heads matter by known amounts."""

from collections.abc import Iterator
from typing import Any

import pytest

from headbook.artefacts.pruning_orders import Order
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen import _trained_pruning_by_importance as study
from headbook.chapters.sixteen._curves import EVERY
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.types import Kind

PAGE = "22_pruning_by_importance"

CONFIG = Config("smoke")
HEADS, LEVELS, DRAWS = 24, 5, 3


@pytest.fixture(scope="module")
def tables(planted: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "trained", lambda run, store: planted.model)
        yield study.trained_here(CONFIG, Store(tmp_path_factory.mktemp("runs")))


def test_every_order_has_every_level(tables: Tables) -> None:
    sizes = tables["curves"].groupby(["scope", "order"]).size()
    joint = sizes[EVERY]
    assert set(joint.index) == set(Order)
    assert joint[Order.RANDOM] == LEVELS * DRAWS
    assert set(joint.drop(Order.RANDOM)) == {LEVELS}
    for kind in Kind:
        assert dict(sizes[kind]) == {Order.POSITION: LEVELS, Order.RANDOM: LEVELS * DRAWS}


def test_each_mask_is_translated_once_and_ablation_is_scored_on_another_set(
    tables: Tables, planted: Any
) -> None:
    alone, scored = planted.masked_runs
    assert alone.test == "valid"
    assert sorted(map(len, alone.masks)) == [0, *[1] * HEADS]
    assert scored.test == next(iter(planted.model.corpus.tests))
    assert len(set(map(frozenset, scored.masks))) == len(scored.masks)


def test_scores_are_estimated_anew_on_what_the_steps_before_left(
    tables: Tables, planted: Any
) -> None:
    closed = [set(run.closed) for run in planted.importance_runs if run.closed]
    assert [len(heads) for heads in closed] == [5, 10, 14]
    assert closed[0] < closed[1] < closed[2]
    assert {run.pairs for run in planted.importance_runs} == {"valid"}


def test_a_level_closes_the_share_it_says(tables: Tables) -> None:
    curves = tables["curves"]
    kinds = curves[[f"{kind}_pruned" for kind in Kind]].sum(axis=1)
    assert (kinds == curves["pruned"]).all()
    joint = curves[curves["scope"] == EVERY]
    assert list(joint["pruned"]) == [round(HEADS * level) for level in joint["level"]]
    for kind in Kind:
        of_kind = curves[curves["scope"] == kind]
        assert (of_kind["pruned"] == of_kind[f"{kind}_pruned"]).all()
        assert of_kind["share"].max() == pytest.approx(round(0.8 * 8) / 8)


def test_the_planted_order_is_found(tables: Tables) -> None:
    kept = tables["kept"].query("scope == @EVERY").set_index("order")["kept"]
    assert kept[Order.ABLATION] >= kept[Order.POSITION] - 1e-9
    assert kept[Order.POSITION] == pytest.approx(kept[Order.SENTENCE])
    assert kept[Order.POSITION] > kept[Order.RANDOM] > kept[Order.REVERSED]
    assert (tables["kept"]["low"] <= tables["kept"]["kept"]).all()
    assert (tables["kept"]["kept"] <= tables["kept"]["high"]).all()
    random = tables["kept"].query("order == @Order.RANDOM")
    assert (random[["above_random", "above_low", "above_high"]] == 0).all(axis=None)


def test_what_costs_nothing_is_harmless(tables: Tables) -> None:
    harmless = tables["kept"].query("scope == @EVERY").set_index("order")["harmless_share"]
    assert harmless[Order.POSITION] == pytest.approx(5 / HEADS)
    assert harmless[Order.REVERSED] == 0


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    claims = checked(ledger.load(), tables["claims"].astype({"seed": str}), PAGE, "test")
    mine = {claim.id for claim in ledger.load().claims if claim.study == PAGE}
    assert set(claims["claim"]) == mine - {"michel-f3-importance-beats-ablation"}


def test_claims_read_the_curves(tables: Tables) -> None:
    claims = tables["claims"].set_index("claim")
    curves = tables["curves"].query("order == @Order.POSITION").set_index(["scope", "level"])
    kept = curves["kept"]
    fifth = claims.loc["michel-f3-fifth-free"]
    assert fifth["value"] == pytest.approx(kept[EVERY, 0.2] - 1)
    assert fifth["baseline"] == pytest.approx(curves.loc[(EVERY, 0.0), "bleu"])
    either = min(kept[Kind.ENCODER, 0.8], kept[Kind.DECODER, 0.8])
    assert claims.loc["michel-f4-self-survives", "value"] == pytest.approx(either)
    cross = claims.loc["michel-f4-cross-needs-heads"]
    assert cross["value"] == pytest.approx(either - kept[Kind.CROSS, 0.8])
    assert cross["baseline"] == pytest.approx(kept[Kind.CROSS, 0.8])
    assert cross["low"] > 0
    means = tables["kept"].query("scope == @EVERY").set_index("order")["kept"]
    chance = claims.loc["michel-f3-importance-beats-chance"]
    assert chance["value"] == pytest.approx(means[Order.POSITION] - means[Order.RANDOM])
    assert chance["low"] > 0
