"""Diversity beside pruning: orders that were planted, what chance gives, and one sweep made."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.model import Size, TrainedModel, corpus_of, heads_of
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _head_diversity as head_diversity
from headbook.chapters.diversity import diversity_and_pruning as page
from headbook.chapters.diversity._head_diversity import (
    ALL,
    BETWEEN,
    DIVERSITY,
    INSIDE,
    KINDS,
    OVER,
    QUERIES,
    agreement,
    drawn_again,
    grid_of,
    shuffled_heads,
    shuffled_layers,
    slopes,
    with_others,
)
from headbook.chapters.diversity._scores import DISTANCE, diversity_rows
from headbook.chapters.diversity.diversity_and_pruning import SURVIVAL, TRAINED, UNTRAINED
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.corpora.batches import in_order
from headbook.heads.four_metrics import ATTENTION, DISSIMILARITY, FREE, ORTHOGONALITY
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.store import Store
from headbook.types import HeadId, Kind

PAGE = "35_diversity_and_pruning"
CONFIG = Config("smoke")
LAYERS, HEADS = 2, 4
"""Of the planted model."""
FALL = 10.0
"""By how much planted dissimilarity falls a layer, against a survival that rises."""
ORDER = (2, 0, 3, 1)
"""Each head's place in its block: the head with 0 is closed first."""


def planted_points() -> list[SimpleNamespace]:
    """Each kind loses its heads one by one, the first layer's before the second's."""
    closed = [
        tuple(
            HeadId(kind, layer, head)
            for kind in KINDS
            for layer in range(LAYERS)
            for head in range(HEADS)
            if layer * HEADS + ORDER[head] < step
        )
        for step in range(LAYERS * HEADS)
    ]
    return [SimpleNamespace(closed=heads) for heads in closed]


def planted_grid(fall: float = FALL) -> np.ndarray:
    """Inside a block in the order of survival; from one layer to the next lower by `fall`."""
    layers = -fall * np.arange(LAYERS, dtype=float)[:, None]
    return np.broadcast_to(np.array(ORDER) / HEADS + layers, (len(KINDS), LAYERS, HEADS)).copy()


def planted_diversity(model: Any, sentences: int) -> dict[str, dict[str, np.ndarray]]:
    alike = dict.fromkeys(DIVERSITY, np.zeros((len(KINDS), LAYERS, HEADS)))
    measured = {**alike, DISSIMILARITY: planted_grid(), ATTENTION: -planted_grid(0.0)}
    return {TRAINED: measured, UNTRAINED: alike}


def planted_importance(model: Any, config: Config, store: Store) -> Mapping[str, np.ndarray]:
    """Importance has the order upside down."""
    values = np.array([-float(ORDER[head.head]) for head in heads_of(model)])
    return dict.fromkeys(page.IMPORTANCES, values)


class PlantedModel(TrainedModel):
    """A shape; everything else of it is planted."""

    def untrained(self) -> Transformer:
        return Transformer(TransformerConfig(9, 9, LAYERS, LAYERS, 8, 8, HEADS))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    run = replace(CONFIG.models()[0], size=Size(LAYERS, 8, 8, HEADS))
    model = PlantedModel(run, Path("nowhere"), corpus_of(run.corpus, run.pairs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "trained", lambda run, store: model)
        patch.setattr(page, "swept", lambda *given: planted_points())
        patch.setattr(page, "_diversity", planted_diversity)
        patch.setattr(page, "importance_scores", planted_importance)
        return page.trained_here(CONFIG, Store(tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def smoke() -> Tables:
    return page.trained_here(CONFIG, Store.default())


def with_survival(tables: Tables, first: str, scope: str, kind: str = ALL) -> pd.Series:
    rows = tables["agreement"].set_index(["first", "second", "scope", "kind"])
    return rows.loc[(first, SURVIVAL, scope, kind)]


def test_the_planted_order_is_that_of_survival_inside_every_block(tables: Tables) -> None:
    for kind in (ALL, *map(str, KINDS)):
        assert with_survival(tables, DISSIMILARITY, INSIDE, kind)["value"] == pytest.approx(1)
        assert with_survival(tables, ATTENTION, INSIDE, kind)["value"] == pytest.approx(-1)
    assert np.isnan(with_survival(tables, QUERIES, INSIDE)["value"])


def test_ranks_over_blocks_would_tell_another_story(tables: Tables) -> None:
    """The layer with the more diverse heads loses more of them: between layers all is reversed."""
    assert with_survival(tables, DISSIMILARITY, BETWEEN)["value"] == pytest.approx(-1)
    assert with_survival(tables, DISSIMILARITY, OVER)["value"] < 0.5


def test_shuffled_heads_give_nothing_inside_blocks_and_what_layers_do_over_them(
    tables: Tables,
) -> None:
    inside = with_survival(tables, DISSIMILARITY, INSIDE)
    assert abs(inside["null"]) < 0.05
    assert -0.6 < inside["null_low"] < 0 < inside["null_high"] < 0.6
    assert with_survival(tables, DISSIMILARITY, OVER)["null"] < -0.1
    assert abs(with_survival(tables, DISSIMILARITY, BETWEEN)["null"]) < 0.1


def test_survival_is_the_share_of_points_that_keep_a_head(tables: Tables) -> None:
    rows = tables["heads"].set_index(["kind", "layer", "head"])[SURVIVAL].sort_index()
    for kind in map(str, KINDS):
        assert rows.loc[(kind, 1)].tolist() == [0.375, 0.125, 0.5, 0.25]
        assert rows.loc[(kind, 2)].tolist() == [0.875, 0.625, 1.0, 0.75]


def test_slopes_are_those_planted(tables: Tables) -> None:
    rows = tables["slopes"].set_index(["measure", "version", "kind"])
    assert rows.loc[(DISSIMILARITY, TRAINED, "decoder"), "value"] == pytest.approx(-FALL)
    assert rows.loc[(DISSIMILARITY, TRAINED, ALL), "high"] < 0
    assert rows.loc[(DISSIMILARITY, UNTRAINED, ALL), "value"] == 0
    assert rows.loc[(SURVIVAL, TRAINED, ALL), "value"] == pytest.approx(0.5)
    assert (SURVIVAL, UNTRAINED, ALL) not in rows.index


def test_a_slope_is_a_layer_and_not_the_whole_way() -> None:
    grid = np.zeros((len(KINDS), 5, 3)) + 0.25 * np.arange(5)[:, None]
    grid[1] *= -2
    found = slopes(drawn_again(grid))
    assert found["encoder"] == pytest.approx(0.25) and found["decoder"] == pytest.approx(-0.5)
    assert found[ALL][0] == pytest.approx(0.0)


def test_random_scores_agree_with_nothing() -> None:
    noise = np.random.default_rng(3)
    first, second = noise.random((2, len(KINDS), 6, 8))
    rows = {row["scope"]: row for row in agreement(first, second) if row["kind"] == ALL}
    for scope in (INSIDE, OVER):
        assert rows[scope]["null_low"] < rows[scope]["value"] < rows[scope]["null_high"]
        assert rows[scope]["low"] < 0 < rows[scope]["high"]


def test_a_block_whose_heads_are_all_alike_is_left_out() -> None:
    first = np.broadcast_to(np.arange(4.0), (len(KINDS), 2, 4)).copy()
    second = first.copy()
    second[:, 1] = 7.0
    second[2] = 7.0
    rows = {row["kind"]: row for row in agreement(first, second) if row["scope"] == INSIDE}
    assert rows["encoder"]["value"] == rows[ALL]["value"] == pytest.approx(1)
    assert np.isnan(rows["cross"]["value"]) and np.isnan(rows["cross"]["low"])


def test_draws_stay_in_their_block_and_are_paired() -> None:
    grid = np.arange(len(KINDS) * 3 * 4, dtype=float).reshape(len(KINDS), 3, 4)
    drawn, shuffled, layers = drawn_again(grid), shuffled_heads(grid), shuffled_layers(grid)
    assert np.array_equal(drawn[0], grid)
    assert (drawn // 4 == grid // 4).all() and (shuffled // 4 == grid // 4).all()
    assert np.array_equal(drawn_again(2 * grid), 2 * drawn)
    assert np.array_equal(np.sort(shuffled, axis=-1)[7], grid)
    # each block on its own: one order for all would let layers stand in for heads
    assert not np.array_equal(shuffled[:, 0, 0] % 4, shuffled[:, 0, 1] % 4)
    assert np.array_equal(np.sort(layers[..., 0], axis=-1)[5], grid.mean(-1))


def test_a_head_is_compared_with_the_others_alone() -> None:
    pairs = torch.tensor([[[9.0, 1, 3], [1, 9, 5], [3, 5, 9]]])
    assert with_others(pairs).tolist() == [[2, 3, 4]]
    assert with_others(pairs[:, :1, :1]).isnan().all()
    two = torch.tensor([[[0.0, 0.1], [0.1 + 1e-12, 0.0]]], dtype=torch.float64)
    assert with_others(two)[0, 0] == with_others(two)[0, 1]


def test_a_grid_has_every_head_in_its_place() -> None:
    heads = (HeadId(Kind.CROSS, 1, 0), HeadId(Kind.ENCODER, 0, 1))
    grid = grid_of(heads, np.array([5.0, 6.0]), Size(2, 8, 8, 2))
    assert grid[2, 1, 0] == 5 and grid[0, 0, 1] == 6 and np.isnan(grid).sum() == 10


def test_layer_means_are_those_of_the_four_metrics_page() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(30, 30, 2, 2, 16, 32, 4)).eval()
    noise = np.random.default_rng(0)
    pairs = [
        tuple([*noise.integers(4, 30, size).tolist(), 2] for size in noise.integers(3, 9, 2))
        for _ in range(6)
    ]
    batches = list(in_order(pairs, 64))
    found = head_diversity.diversities(model, batches)
    for at, kind in enumerate(KINDS):
        rows = diversity_rows(model, kind, batches)
        expected = rows[rows["form"] == FREE].set_index(["metric", "layer"])["value"]
        for name in (DISSIMILARITY, DISTANCE, ATTENTION):
            assert found[name][at].mean(-1) == pytest.approx(expected[name].to_numpy())
        asked = 1 - found[QUERIES][at].mean(-1)
        assert asked == pytest.approx(expected[ORTHOGONALITY].to_numpy())
    assert all(grid.shape == (3, 2, 4) for grid in found.values())


def test_claims_read_what_was_planted(tables: Tables) -> None:
    claims = tables["claims"].set_index("claim")
    assert claims.loc["xray-later-heads-similar", "value"] == pytest.approx(-FALL)
    assert claims.loc["xray-later-heads-similar", "baseline"] == 0
    assert claims.loc["xray-later-heads-pruned-first", "value"] == pytest.approx(0.5)
    assert claims.loc["xray-similar-layers-pruned-first", "value"] == pytest.approx(-1)
    assert claims.loc["xray-diversity-survives", "value"] == pytest.approx(1)
    assert claims.loc["xray-diversity-important", "value"] == pytest.approx(-1)
    tells_more = claims.loc["xray-importance-tells-more"]
    assert tells_more["value"] == pytest.approx(-2) and tells_more["baseline"] == pytest.approx(1)


def test_claims_are_rows_the_scorecard_takes(smoke: Tables, tables: Tables) -> None:
    found = ledger.load()
    known = {claim.id for claim in found.claims if claim.study == PAGE}
    for each in (smoke, tables):
        claims = each["claims"].astype({"seed": str})
        mine = checked(found, claims[claims["claim"].isin(known)], PAGE, "test")
        assert set(mine["claim"]) == known
        assert not known or set(claims["claim"]) == known


def test_a_model_whose_heads_are_not_scored_singly_has_no_claim_on_importance(
    tables: Tables,
) -> None:
    each = page.Subject(
        {"model": "m", "corpus": "c", "target": "t", "seed": 0},
        planted_diversity(None, 0), planted_grid(0.0), {},
    )  # fmt: skip
    claims = pd.DataFrame(page._claims(each, pd.DataFrame(page._agreement(each))))
    missing = {"xray-diversity-important", "xray-importance-tells-more"}
    assert set(tables["claims"]["claim"]) - set(claims["claim"]) == missing


def test_a_real_sweep_has_every_head_kind_and_version(smoke: Tables) -> None:
    heads = smoke["heads"]
    assert len(heads) == 12 and heads[SURVIVAL].between(0, 1).all()
    assert heads[list(DIVERSITY)].notna().all().all()
    assert heads[list(page.IMPORTANCES)].notna().all().all()
    counts = smoke["layers"].groupby(["kind", "layer"])["measure"].count()
    assert (counts == 2 * len(DIVERSITY) + 1).all()
    bounded = smoke["layers"]
    assert (bounded["low"] <= bounded["value"] + 1e-9).all()
    assert (bounded["value"] <= bounded["high"] + 1e-9).all()


def test_what_is_shown_is_a_range_over_models(tables: Tables) -> None:
    again = tables["agreement"].assign(model="another", value=0.5)
    both = tables | {"agreement": pd.concat([tables["agreement"], again])}
    found = page.with_survival(both).set_index(["first", "scope"])
    row = found.loc[(DISSIMILARITY, INSIDE)]
    assert (row["low"], row["high"]) == pytest.approx((0.5, 1)) and row["value"] == pytest.approx(
        0.75
    )
    assert row["measure"] == DISSIMILARITY and OVER not in found.index.levels[1]
    facts = page.facts(both)
    assert facts["models"] == "2" and facts["dissimilarity"] == "−10.000"
    assert facts["dissimilarity_paper"] == "−0.008" and facts["inside_negative"] == "0"
    claims = both["claims"]
    inside = claims["claim"] == "xray-diversity-survives"
    below = both | {"claims": claims.assign(high=claims["high"].mask(inside, -0.1))}
    assert page.facts(below)["inside_negative"] == str(inside.sum())


def test_tables_of_a_real_sweep_can_be_shown(smoke: Tables) -> None:
    assert len(page.changes(smoke)) == 2 * len(DIVERSITY) + 1
    assert len(page.agreements(smoke)) == len(DIVERSITY) * 4 + 3
    assert page.by_layer(smoke, SURVIVAL)["value"].between(0, 1).all()
    assert page.facts(smoke)["scored"] == "1"
