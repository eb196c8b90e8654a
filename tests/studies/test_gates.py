"""Study 17: the distribution of a gate in closed form, and what the sweeps' gates became."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.figure import Figure

from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.pruning.hard_concrete import CONSTANTS, Constants, HardConcrete, Source
from headbook.studies import gates as study
from headbook.studies.config import Config
from headbook.studies.results import Tables, publish, published

SMOKE = Config("smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.compute(SMOKE)


def test_every_claim_of_the_study_has_its_row(tables: Tables) -> None:
    known = ledger.load()
    rows = checked(known, tables["claims"], study.STUDY, "smoke")
    assert sorted(rows["claim"]) == sorted(c.id for c in known.claims if c.study == study.STUDY)


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
    ends = study.end_table(tables).query("`gates on` == 'all attentions'").set_index("λ")
    assert ends["heads kept"].to_dict() == kept.to_dict() and set(ends["of"]) == {12}
    assert set(tables["curve"]["heads"]) == {4, 12}


@pytest.mark.parametrize("constants", [CONSTANTS[Source.CODE], Constants(0.5, -0.3, 1.2)])
def test_densities_are_those_of_samples(constants: Constants) -> None:
    torch.manual_seed(0)
    gate = HardConcrete(torch.full((50_000,), 0.7), constants)
    drawn = gate.sample().detach().numpy()
    edges = np.array([0.0, 0.2, 0.5, 0.9, 1.0])
    stretched = (edges - constants.gamma) / (constants.zeta - constants.gamma)
    below = study.concrete_below(stretched, 0.7, constants)
    for low, high, mass in zip(edges, edges[1:], np.diff(below), strict=False):
        share = np.mean((drawn > low) & (drawn < high))
        assert share == pytest.approx(mass, abs=4 * (mass / 50_000) ** 0.5)
    # What lies beyond the ends is the mass at them.
    assert below[0] == pytest.approx(float(gate.closed_probability()[0].detach()), abs=1e-6)
    assert 1 - below[-1] == pytest.approx(float(gate.one_probability()[0].detach()), abs=1e-6)


def test_densities_and_masses_add_up_to_one(tables: Tables) -> None:
    keys = ["constants", "log_alpha", "distribution"]
    inside = tables["densities"].groupby(keys)["density"].sum() / study.BINS
    ends = (
        tables["probabilities"].set_index(["constants", "log_alpha"])[["zero", "one"]].sum(axis=1)
    )
    for (source, log_alpha, name), mass in inside.items():
        expected = 1.0 if name == "Concrete" else 1 - ends[source, log_alpha]
        assert mass == pytest.approx(expected, abs=1e-6)


DRAW = (study.draw_distributions, study.draw_learning, study.draw_gates)


@pytest.mark.parametrize("draw", DRAW, ids=lambda draw: draw.__name__)
def test_figures_are_drawn_from_published_tables_as_from_computed(
    draw, tables: Tables, tmp_path: Path
) -> None:
    publish(study.STUDY, SMOKE, tables, [], tmp_path)
    for given in (tables, published(study.STUDY, "smoke", tmp_path).tables):
        figure = draw(given)
        assert isinstance(figure, Figure)
        figure.canvas.draw()


def test_the_reading_takes_its_numbers_from_the_tables(tables: Tables, tmp_path: Path) -> None:
    publish(study.STUDY, SMOKE, tables, [], tmp_path)
    read_back = published(study.STUDY, "smoke", tmp_path).tables
    assert "nan" not in study.read(tables) and study.read(read_back) == study.read(tables)
    curve = tables["curve"].assign(kept_heads=3.0)
    said = study.read(tables | {"curve": curve})
    assert "keeps from 3 to 3 of 4 heads" in said and "keeps from 3 to 3 of 12 heads" in said


def test_computing_again_gives_the_same_tables(tables: Tables) -> None:
    for name, table in study.compute(SMOKE).items():
        pd.testing.assert_frame_equal(table, tables[name])
