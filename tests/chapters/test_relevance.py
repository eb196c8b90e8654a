"""Page 16: shares of layers, gates of its claims, and tables from known rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.specialised_heads import relevance as page
from headbook.chapters.specialised_heads._released import read, trees_of
from headbook.chapters.specialised_heads._roles import Roles
from headbook.chapters.specialised_heads._subject import Subject
from headbook.heads.roles import Role
from headbook.looking.load import load
from headbook.runs.store import Store
from headbook.types import UserError

NONE_HELD = {Role.RARE: torch.zeros(1, 2, 2, dtype=torch.bool)}
DOMINATE, RARE = "voita-f1a-few-dominate", "voita-f1a-rare-most-relevant"


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    return page.compute(page.Parameters(sentences=1), Store.default())


def test_parts_of_a_layer_sum_to_one_and_the_largest_is_shown(tables) -> None:
    heads, layers = tables["relevance"], tables["released"].set_index("layer")
    assert np.allclose(heads.groupby("layer")["relevance"].sum(), 1)
    first = heads[heads["rank"] == 1].set_index("layer")
    assert (first["head"] == layers["head"]).all()
    assert np.allclose(first["relevance"] * 8, layers["value"])
    two = heads[heads["rank"] <= 2].groupby("layer")["relevance"].sum()
    assert np.allclose(two, layers["two"])
    assert tables["claims"].empty  # of treebanks only


def test_relevance_goes_back_through_a_model_trained_here() -> None:
    """Six layers of eight heads, the share conserved by the rules of the code."""
    model = load("mixture-fr-256")
    found = page.compute(page.Parameters(models=(model.name,), sentences=1), Store.default())
    heads = found["relevance"]
    assert len(heads) == 48 and np.allclose(heads.groupby("layer")["relevance"].sum(), 1)
    batches = model.batches(["The cat sleeps."], ["Le chat dort."])
    sums = page.propagated(model, batches, page.MAIN)
    assert torch.allclose(sums["conservation/encoder"].ratio(), torch.ones(6).double(), atol=1e-3)


def test_claims_about_ours_leave_the_gates_to_the_ledger() -> None:
    trees = trees_of("ewt-sample", 20)
    own = replace(read(load("mixture-fr-256"), "ewt-sample", trees), text="ud-pud-en")
    rows = list(page._claims(Subject(Roles.of(own), 1), {"mixture-fr-256": 1.0}))
    assert {row["corpus"] for row in rows} == {"mixture-fr"} and len(rows) == 5
    assert {row["closed"] for row in rows} <= {"", "present: no rare-word head"}


def test_gradient_and_relevance_are_of_the_same_heads(tables) -> None:
    heads = tables["relevance"]
    found = tables["agreement"].set_index("with").loc["importance by gradient", "value"]
    by_layer = heads.groupby("layer")[["relevance", "gradient"]]
    known = [rows.corr("spearman").iloc[0, 1] for _, rows in by_layer]
    assert found == pytest.approx(np.mean(known))


@pytest.mark.parametrize(
    ("nulls", "gate"),
    [({"m": 1.3}, "diagnostic: networks"), ({"m": 1.05}, "none"), ({}, "diagnostic: no null")],
)
def test_dominance_counts_only_where_networks_without_knowledge_fail(nulls, gate) -> None:
    row = {"model": "m", "value": 2.0, "low": 1.9, "high": 2.1, "baseline": 1.0}
    assert page._closed(DOMINATE, row, nulls, NONE_HELD).startswith(gate)


def test_rare_words_are_judged_where_a_head_points_at_them() -> None:
    row = {"model": "m"}
    assert page._closed(RARE, row, {}, NONE_HELD) == "present: no rare-word head"
    there = {Role.RARE: torch.ones(1, 2, 2, dtype=torch.bool)}
    assert page._closed(RARE, row, {}, there) == "none"


def test_heads_are_drawn_by_rank_with_their_own_number_and_role() -> None:
    rows = pd.DataFrame({"layer": [1, 1], "head": [1, 2], "rank": [2, 1],
                         "role": ["none", "syntactic"]})  # fmt: skip
    shown = page.ranked(rows)
    assert shown["head"].tolist() == [2, 1]
    assert shown["label"].tolist() == ["1", "2 s"]


def test_totals_that_blow_up_are_powers_of_ten() -> None:
    assert [page._total(each) for each in (1.0, 26.4, -7.9e10)] == ["1.000", "26", "−10^11"]


def test_other_models_and_too_few_sentences_are_refused() -> None:
    with pytest.raises(UserError, match="Firefox students and translation models trained here"):
        page.compute(page.Parameters(models=("minilm",)), Store.default())
    with pytest.raises(UserError, match="at least 1"):
        page.compute(page.Parameters(sentences=0), Store.default())
