"""Page 17: the distribution of a gate in closed form, and what the sweeps' gates became."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads import gates as page
from headbook.chapters.words import OURS
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.pruning.hard_concrete import CONSTANTS, Constants, HardConcrete, Source
from headbook.runs.store import Store

SMOKE = Config("smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def tables() -> Tables:
    return page.trained_here(SMOKE, Store.default())


def test_every_claim_of_the_study_has_its_row(tables: Tables) -> None:
    known = ledger.load()
    rows = checked(known, tables["claims"], "17_gates", "smoke")
    assert sorted(rows["claim"]) == sorted(c.id for c in known.claims if c.study == "17_gates")


def test_the_printed_chances_come_out(tables: Tables) -> None:
    claims = tables["claims"].set_index("claim")["value"]
    assert 0 < claims["voita-f6-probabilities"] <= 0.005
    code = tables["probabilities"].query("constants == 'code'")
    assert (code["zero"] - code["printed_zero"]).abs().max() > 0.04


def test_the_share_that_decided_is_that_of_the_whole_encoder_sweep(tables: Tables) -> None:
    gates = tables["gates"].query("sweep == 'encoder only'")
    assert len(gates) == 2 * 4 and set(gates["kind"]) == {"encoder"}
    decided = gates["log_alpha"].abs() >= np.log(11)
    claims = tables["claims"].set_index("claim")["value"]
    assert claims["voita-s6-gates-saturate"] == pytest.approx(decided.mean())
    assert (gates["saturated"] == decided).all()


def test_every_gate_and_every_validation_has_a_row(tables: Tables) -> None:
    everywhere = tables["gates"].query("sweep == 'all attentions'")
    assert len(everywhere) == 2 * 12 and everywhere["kind"].nunique() == 3
    assert set(everywhere["layer"]) == set(everywhere["head"]) == {1, 2}
    kept = everywhere.groupby("penalty")["kept"].sum()
    ends = page.ends(tables).query("`gates on` == 'all attentions'").set_index("λ")
    assert list(ends["heads left"]) == list(kept) and set(ends["of"]) == {12}
    assert set(tables["curve"]["heads"]) == {4, 12}


@pytest.mark.parametrize("constants", [CONSTANTS[Source.CODE], Constants(0.5, -0.3, 1.2)])
def test_densities_are_those_of_samples(constants: Constants) -> None:
    torch.manual_seed(0)
    gate = HardConcrete(torch.full((50_000,), 0.7), constants)
    drawn = gate.sample().detach().numpy()
    edges = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
    stretched = (edges - constants.gamma) / (constants.zeta - constants.gamma)
    below = page.concrete_below(stretched, 0.7, constants)
    for low, high, mass in zip(edges, edges[1:], np.diff(below), strict=False):
        share = np.mean((drawn > low) & (drawn < high))
        assert share == pytest.approx(mass, abs=4 * (mass / 50_000) ** 0.5)
    # What lies beyond the ends is the mass at them.
    assert below[0] == pytest.approx(float(gate.closed_probability()[0].detach()), abs=1e-6)
    assert 1 - below[-1] == pytest.approx(float(gate.one_probability()[0].detach()), abs=1e-6)


def test_densities_and_masses_add_up_to_one(tables: Tables) -> None:
    keys = ["constants", "log_alpha", "distribution"]
    inside = tables["densities"].groupby(keys)["density"].sum() / page.BINS
    ends = (
        tables["probabilities"].set_index(["constants", "log_alpha"])[["zero", "one"]].sum(axis=1)
    )
    for (source, log_alpha, name), mass in inside.items():
        expected = 1.0 if name == "Concrete" else 1 - ends[source, log_alpha]
        assert mass == pytest.approx(expected, abs=1e-6)


def test_the_curve_of_the_figure_starts_and_ends_at_the_masses(tables: Tables) -> None:
    chances = tables["probabilities"].query("constants == 'figure'").set_index("log_alpha")
    rows = page.cumulative(tables)
    for name, log_alpha in (("log α = 0", 0.0), ("log α = 2", 2.0), ("log α = −3", -3.0)):
        curve = rows[rows["gates"] == name].set_index("gate")["value"]
        assert curve[0.0] == pytest.approx(chances.loc[log_alpha, "zero"])
        assert curve[1.0] == pytest.approx(1 - chances.loc[log_alpha, "one"], abs=1e-6)
        assert curve.is_monotonic_increasing
    marks = page.printed(tables).set_index("gate")["value"]
    assert list(marks) == pytest.approx([0.23, 0.04, 0.86, 0.77, 0.31, 0.99])


def test_facts_are_of_the_tables(tables: Tables) -> None:
    claims = tables["claims"].copy()
    saturate = claims["claim"] == "voita-s6-gates-saturate"
    claims.loc[saturate, "value"] = 0.5
    two = pd.concat([claims, claims[saturate].assign(value=0.25, corpus="other")])
    assert page.decided(tables | {"claims": two}).tolist() == [0.5, 0.25]
    curve = tables["curve"].assign(saturated_share=0.0)
    last = curve["update"] == curve["update"].max()
    first = curve["penalty"] == curve["penalty"].min()
    curve.loc[last, "saturated_share"] = 0.75
    curve.loc[last & first, "saturated_share"] = 0.5
    found = page.facts(tables | {"curve": curve})
    assert found["decided_range"] == words.percents(pd.Series([0.5, 0.75]))
    assert found["middle"] == "0.232 / 0.232" and found["middle_code"] == "0.312 / 0.312"
    assert found["gates"] == "4"
    assert len(page.deciding(tables)) == (tables["curve"]["sweep"] == "encoder only").sum()


def test_the_long_training_is_told_of_apart(tables: Tables) -> None:
    claims = tables["claims"].copy()
    saturate = claims["claim"] == "voita-s6-gates-saturate"
    claims.loc[saturate, "value"] = 0.5
    long = {name: tables[name].assign(model=OURS) for name in ("curve", "gates")}
    long["curve"]["update"] *= 100
    long["claims"] = claims[saturate].assign(value=0.75, model=OURS, corpus="mixture-fr")
    small = tables | {"claims": claims}
    both = small | {n: pd.concat([small[n], long[n]], ignore_index=True) for n in long}
    alone, found = page.facts(small), page.facts(both)
    assert alone.items() < found.items()
    assert found["ours_decided_range"] == found["decided_range"] and found["ours_updates"] == "600"


def test_computing_again_gives_the_same_tables(tables: Tables) -> None:
    for name, table in page.trained_here(SMOKE, Store.default()).items():
        pd.testing.assert_frame_equal(table, tables[name])


def decided(*shares: float) -> pd.Series:
    """The shares of decided gates after 200, 400 … updates."""
    return pd.Series(shares, index=200 * np.arange(1, 1 + len(shares)), dtype=float)


def test_gates_that_still_decide_are_not_judged() -> None:
    """The planted faults: a share that rose by 5 % in the last sixth, and one never looked at."""
    still = [decided(0.2, 0.5, 0.7, 0.8, 0.9, 0.9), decided(0.2, 0.5, 0.7, 0.8, 0.9, 0.918)]
    assert page.still_deciding(still) == {}
    moves = page.still_deciding([*still, decided(0.2, 0.5, 0.7, 0.8, 0.85, 0.9)])
    assert moves["closed"] == "converged: 2.3% of the gates were decided in their last updates"
    assert "not looked at" in page.still_deciding([decided(0.9)])["closed"]
