"""Page 47: rates are chosen on validation, seeds are the unit, and claims follow the rows."""

from dataclasses import asdict

import pandas as pd
import pytest

from headbook.artefacts.new_task import OURS, Start
from headbook.chapters import words
from headbook.chapters.results import extend, write
from headbook.chapters.why import frozen_transformers
from headbook.chapters.why.frozen_transformers import (
    BEST_RATE,
    FINE_TUNED,
    FROZEN,
    KEYS,
    LONGER,
    NETWORKS,
    OF_OURS,
    ONE_RATE,
    SCRATCH,
    SEEDS,
    TASKS,
    UNTUNED,
    Parameters,
    arithmetic,
    bodies_table,
    chosen,
    claims,
    claims_of_ours,
    compared,
    compute,
    facts,
    further,
    rates_table,
    repeated,
    selected,
    sets_table,
    settings,
    sweep,
)
from headbook.corpora.small_tasks import DIGITS, LISTOPS, XOR
from headbook.models.new_ends import Trainable
from headbook.runs.store import Store
from headbook.statistics import binomial_interval
from headbook.types import UserError


def table(test) -> pd.DataFrame:
    """Planned rows whose test accuracy is a function of the cell; validation says the same."""
    found = []
    for name in TASKS:
        first = [row(cell, test(cell)) for cell in sweep(name)]
        found += first
        found += [row(cell, test(cell)) for cell in further(name, pd.DataFrame(first))]
    return pd.DataFrame(found)


def row(cell, accuracy: float) -> dict:
    return {**asdict(cell), "validation": accuracy, "loss": 1.0, "test": accuracy, "last": accuracy,
            "steps": 100, "tuned": 0.1, "majority": 0.1}  # fmt: skip


def late(cell) -> float:
    """Scratch beats the frozen network at its best rate, 0.0003, and loses at 0.001."""
    if cell.trainable is Trainable.ALL:
        return (0.9 if cell.rate == 3e-4 else 0.5) + 0.001 * cell.seed
    redrawn = 0.1 * (cell.start is Start.REDRAWN)
    return 0.7 - redrawn + 0.1 * (cell.rate == 3e-3) - 0.3 * (cell.trainable is Trainable.OUTPUT)


def test_no_cell_is_planned_twice_and_each_sweep_holds_the_one_rate():
    cells = [cell for name in TASKS for cell in sweep(name)]
    assert len(set(cells)) == len(cells)
    rates = pd.DataFrame(map(asdict, cells)).groupby(["task", "start", "trainable"])["rate"]
    assert rates.apply(lambda own: UNTUNED in set(own)).all()
    assert set(rates.nunique()) == {3, 4}
    # a few first cells are several networks, not one at several rates
    assert [cell.rate for cell in sweep(XOR)][: len(NETWORKS)] == [UNTUNED] * len(NETWORKS)


LATER = ("trained, output", "trained, + input", "redrawn, output", "redrawn, + norms")


def test_networks_and_rates_select_the_cells_that_are_added_to_published_ones():
    later = Parameters(TASKS, networks=LATER, rates=("0.0003", "0.003", "0.01"), cells=0)
    cells = selected(later)
    pairs = {(str(cell.start), str(cell.trainable)) for cell in cells}
    assert pairs == {tuple(each.split(", ")) for each in LATER}
    assert len(cells) == len(set(cells)) == 4 * 4 * 3
    assert {cell.rate for cell in cells} == {3e-4, 3e-3, 1e-2}
    assert selected(later, OURS) == []
    assert selected(Parameters((XOR,), cells=0)) == list(sweep(XOR))
    assert selected(Parameters((XOR,), cells=3)) == list(sweep(XOR))[:3]
    lowest = selected(Parameters((XOR,), rates=("0.0001",), cells=0))
    assert {(cell.start, cell.trainable) for cell in lowest} == {SCRATCH, FINE_TUNED}


def test_selected_cells_make_rows_and_no_claims(monkeypatch, tmp_path):
    asked = []

    def rows(cells, *_) -> pd.DataFrame:
        asked.append(cells)
        return pd.DataFrame()

    monkeypatch.setattr(frozen_transformers, "_rows", rows)
    later = Parameters((XOR,), networks=LATER[:1], rates=("0.01",), cells=0)
    assert set(compute(later, Store(tmp_path))) == {"cells"}
    assert [(cell.trainable, cell.rate) for (cell,) in asked] == [(Trainable.OUTPUT, 1e-2)]


def test_no_claim_reads_a_rate_of_the_networks_that_were_swept_later():
    rows = table(late)
    names = rows["start"].astype(str) + ", " + rows["trainable"].astype(str)
    later = names.isin(LATER) & (rows["rate"] != UNTUNED)
    assert later.sum() == 4 * 4 * 3
    rows.loc[later, ["test", "validation"]] = 0.99
    without = rows[~later]
    pd.testing.assert_frame_equal(claims(rows), claims(without))
    # views do: of the best rate
    sets = (sets_table(each).set_index(["task", "start"]) for each in (rows, without))
    assert [each.loc[(XOR, "redrawn"), "output"] for each in sets] == ["30 / 99", "30"]


def test_published_cells_keep_their_row_where_others_are_added(tmp_path):
    rows = table(late)
    later = rows["rate"].eq(1e-2) & rows["trainable"].eq(Trainable.OUTPUT)
    write("page", "released", {"cells": rows[~later]}, {}, tmp_path)
    before = (tmp_path / "page/cells.csv").read_text()
    extend("page", "released", {"cells": rows[later]}, KEYS, {"rates": [1e-2]}, {}, tmp_path)
    after = (tmp_path / "page/cells.csv").read_text()
    assert after.startswith(before) and later.sum() == 8
    assert len(after.splitlines()) == len(before.splitlines()) + 8


def test_the_rate_is_chosen_on_validation_and_not_on_test():
    rows = table(late)
    worst = (rows["rate"] == 1e-2) & (rows["trainable"] == Trainable.POSITIONS)
    rows.loc[worst, "test"] = 1.0
    best = chosen(rows).set_index(["task", "start", "trainable"])
    assert best.loc[(DIGITS, *FROZEN), "rate"] == 3e-3
    assert best.loc[(DIGITS, *SCRATCH), "rate"] == 3e-4
    assert len(best) == rows.drop_duplicates(["task", "start", "trainable"]).shape[0]
    # of equal accuracies the one with the lower loss
    rows.loc[(rows["rate"] == UNTUNED) & (rows["task"] == DIGITS), ["validation", "loss"]] = (
        0.9,
        0.1,
    )
    best = chosen(rows).set_index(["task", "start", "trainable"])
    assert best.loc[(DIGITS, *SCRATCH), "rate"] == UNTUNED


def test_claims_follow_the_rows():
    by_claim = claims(table(late)).query("model.str.contains('digits')")
    found = by_claim.groupby(["claim", "model"])["value"].mean()
    assert found["frozen-matches-full", DIGITS] == pytest.approx(0.2, abs=0.01)
    assert found["frozen-less-when-tuned", DIGITS] == pytest.approx(0.1, abs=0.01)
    assert found["frozen-rate-makes-claim"].to_list() == pytest.approx([0.3], abs=0.01)
    assert found["frozen-norms-suffice", DIGITS] == pytest.approx(-0.1, abs=0.01)
    ahead = found["frozen-trained-over-redrawn"]
    assert ahead.to_list() == pytest.approx([0.1, 0.1]) and len(ahead) == 2
    assert not claims(table(late)).duplicated(["claim", "model", "seed"]).any()
    # a table in which the frozen network wins at every rate says the opposite
    # a network that was stopped before it knew XOR does not count, one that knows it does
    lift = claims(table(late)).query("claim == 'frozen-norms-lift-xor'")
    assert lift["closed"].str.startswith("converged").all()
    known = claims(table(lambda _: 1.0)).query("claim == 'frozen-norms-lift-xor'")
    assert set(known["closed"]) == {"none"}
    turned = table(lambda cell: late(cell) + 0.5 * (cell.trainable is Trainable.POSITIONS))
    value = claims(turned).query("claim == 'frozen-less-when-tuned'")["value"]
    assert (value < 0).all()


def test_our_encoder_is_a_second_body_whose_claims_are_not_counted():
    cells = [cell for name in TASKS for cell in sweep(name, OURS)]
    assert {(cell.start, cell.trainable) for cell in cells} == set(OF_OURS)
    ours = pd.DataFrame([row(cell, late(cell)) for cell in cells])
    others = [row(cell, late(cell)) for name in TASKS for cell in repeated(name, ours)]
    assert {each["seed"] for each in others} == {1, 2}
    ours = pd.concat([ours, pd.DataFrame(others)])
    found = claims_of_ours(ours)
    assert found["closed"].str.startswith("converged").all() and (found["value"] > 0).all()
    assert set(found["claim"]) == {"frozen-trained-over-redrawn"}
    assert len(found) == 2 * SEEDS * (len(TASKS) - 1) and found["model"].str.startswith("our").all()
    stated = facts({"cells": table(late), "ours": ours})
    assert stated["ours_xor_trained_positions_best"] == "80\N{NO-BREAK SPACE}%"
    low, high = binomial_interval(480, 600)  # one training, 600 examples
    assert stated["listops_trained_norms_best_estimate"] == words.estimate(0.8, low, high)
    assert "listops_trained_positions_one_estimate" not in stated  # of seeds
    assert stated["listops_scratch_all_one_range"] == "50\N{NO-BREAK SPACE}%"
    beside = bodies_table(table(lambda cell: late(cell) / 2), ours).set_index(["task", "body"])
    assert beside.loc[(XOR, "ours")].to_list() == ["70 / 80", "60 / 70"]
    assert beside.loc[(XOR, "MiniLM")].to_list() == ["35 / 40", "30 / 35"]


def test_the_arithmetic_is_that_of_every_recorded_training():
    def run(name: str = "new-task", **hardware: bool) -> dict:
        return {"ingredients": {"stage": {"name": name}}, "hardware": {"cores": 2, **hardware}}

    record = {"runs": [run(), run("another", bfloat16=False)]}
    assert arithmetic(record) == {"bfloat16"}
    added = [{"runs": [run(bfloat16=True)]}, {"runs": [run(bfloat16=False)]}]
    assert arithmetic(record | {"added": added[:1]}) == {"bfloat16"}
    assert arithmetic(record | {"added": added}) == {"bfloat16", "float32"}


def test_controls_are_no_row_of_a_figure():
    rows = table(late)
    control = rows["shuffled"] | (rows["updates"] == LONGER)
    assert control.sum() == len(TASKS) + 2
    rows.loc[control, ["test", "validation"]] = 9.0
    assert settings(rows)["test"].max() < 1 and chosen(rows)["validation"].max() < 1


def test_tables_have_a_row_per_task_and_method():
    rows = table(late)
    drawn = compared(rows).set_index(["task", "method", "setting"])
    assert len(drawn) == len(TASKS) * 4 * 2
    assert drawn.loc[(DIGITS, "from scratch", ONE_RATE), "value"] == pytest.approx(0.501)
    assert drawn.loc[(DIGITS, "from scratch", BEST_RATE), "value"] == pytest.approx(0.901)
    assert drawn.loc[(XOR, "from scratch", ONE_RATE), ["low", "high"]].isna().all()
    sets = sets_table(rows).set_index(["task", "start"])
    assert sets.loc[(XOR, "trained"), "output"] == "40 / 50"
    assert sets.loc[(XOR, "trained"), "+ positions"] == "70 / 80"
    for name in (DIGITS, LISTOPS):
        one = rows[rows["task"] == name]
        assert set(compared(one)["task"]) == set(sets_table(one)["task"]) == {name}
    rates = rates_table(rows).set_index(["task", "start", "trainable"])
    assert rates.loc[(XOR, "scratch", "all"), "0.0003"] == "90*"
    assert all(isinstance(value, str) and value for value in facts({"cells": rows}).values())


def test_wrong_parameters_are_refused_in_one_line():
    with pytest.raises(UserError, match="-1 cells cannot be trained"):
        Parameters(cells=-1)
    with pytest.raises(UserError, match="'parity' is none; choose from digits"):
        Parameters(("parity",))
    with pytest.raises(UserError, match="networks: 'drawn, output' is none; choose from trained"):
        Parameters(networks=("drawn, output",))
    with pytest.raises(UserError, match=r"rates: '0\.1' is none; choose from 0\.001, 0\.0003"):
        Parameters(rates=("0.1",))
    with pytest.raises(UserError, match="bodies: 'bert' is none; choose from minilm, mixture"):
        Parameters(bodies=("bert",))
