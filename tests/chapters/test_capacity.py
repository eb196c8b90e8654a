"""Page 45: the bound is the best any matrix of that rank can do, and claims follow the rows."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.recall import Recalled, RecallRun, recalled, train
from headbook.chapters.why.capacity import (
    CAPACITY,
    ELU,
    HEADS,
    PAPER,
    ROW,
    UPDATE,
    Parameters,
    bound,
    claims,
    compute,
    heads_table,
    losses_table,
    over,
    paper,
    plan,
    update_table,
)
from headbook.models.recall import Memory, Rule
from headbook.runs.store import Store
from headbook.types import UserError


def test_the_bound_is_the_loss_of_the_best_matrix_of_that_rank():
    """By singular values: the identity without its last ones."""
    for keys, features in ((10, 4), (10, 10), (4, 10)):
        values = torch.ones(keys, dtype=torch.float64)
        values[features:] = 0
        loss = (torch.eye(keys) - values.diag()).square().sum() / 2 / keys
        assert bound(keys, features) == pytest.approx(float(loss))


def test_no_run_is_planned_twice_and_the_papers_numbers_are_possible():
    runs = [run for _, run in plan()]
    assert len(set(runs)) == len(runs)
    assert paper()["value"].between(-1, 600).all() and set(PAPER) <= set(paper()["memory"])


def rows(loss) -> pd.DataFrame:
    """The planned rows, with a loss by memory, keys and heads."""
    found = []
    for setting, run in plan():
        memory = run.memory
        name = "softmax" if memory.rule is Rule.SOFTMAX else memory.map
        best = loss(name, run.keys, memory.heads, str(memory.rule)) + 1e-4 * run.seed
        found.append((setting, name, str(memory.rule), memory.features or np.nan, memory.heads,
                      str(memory.split), run.keys, run.seed, best, best, 0.5, 100))  # fmt: skip
    return pd.DataFrame(found, columns=list(ROW))


def test_claims_follow_the_rows():
    def loss(name: str, keys: int, heads: int, rule: str) -> float:
        if name.startswith("FAVOR"):
            return max(0.1, bound(keys, 128)) if "scaled, once" in name else 0.5
        features = {ELU: 64, "DPFP-1": 128}.get(name, 1000)
        # the claim about updates is of 40 keys, which fit
        return bound(keys, features) + 0.05 * (heads > 1) + 0.1 * (rule == "sum" and keys == 40)

    table = rows(loss)
    found = claims(table).set_index(["claim", "model"])["value"]
    assert found["capacity-bound"].max() <= 0
    by_claim = claims(table).groupby("claim")["value"].mean()
    assert by_claim["capacity-softmax-more"] == pytest.approx(1e-4)  # mean over seeds
    assert by_claim["capacity-delta-updates"] == pytest.approx(0.1)
    assert by_claim["capacity-several-heads-more"] == pytest.approx(-10)
    assert by_claim["capacity-grows-with-features"] == pytest.approx(36)
    random = found["capacity-random-features-less"].groupby("model").mean()
    assert random["FAVOR+ as in the logs"] == pytest.approx(60)
    assert random["FAVOR+ scaled and drawn once"] == pytest.approx(12)
    assert not claims(table).duplicated(["claim", "model", "seed"]).any()
    table.loc[table["memory"] == ELU, "best"] = 0.0
    assert claims(table).set_index("claim").loc["capacity-bound", "value"] > 0


def test_tables_have_a_row_per_memory_and_number_of_keys():
    table = rows(lambda *_: 0.25)
    one = table[table["setting"] == CAPACITY].drop_duplicates(["memory", "keys"])
    assert len(losses_table(table)) == len(one)
    table.loc[table["keys"] == 400, "best"] = np.nan
    assert update_table(table).query("keys == 400")["best loss here"].tolist() == ["NaN"]
    shown = heads_table(table)
    assert shown["heads"].tolist() == [1, 2, 4, 8] and len(shown.columns) == 5
    assert (table["setting"] == HEADS).any()


def test_three_seeds_have_an_interval_and_one_has_none():
    table = rows(lambda *_: 0.25)
    mean = over(table[table["setting"] == CAPACITY], ["memory", "keys"])
    assert np.isfinite(mean["low"]).equals(mean["seeds"] >= 3)


def test_a_memory_learns_what_fits_and_the_run_is_stored(tmp_path):
    store = Store(tmp_path)
    run = RecallRun(Memory(Rule.SOFTMAX, dim=16), 8)
    found = recalled(run, store)
    assert found.best <= 1e-3 < found.untrained and found.steps % 100 == 0
    assert recalled(run, store) == found
    assert len(list((tmp_path / "recall").glob("*/run.json"))) == 1


def test_nan_ends_a_training_and_stays_nan():
    """Features that are zero in 32 bits, divided by their sum."""
    run = RecallRun(Memory(Rule.DELTA, "FAVOR+ 4", dim=64), 400, again=True)
    found = train(run)
    assert math.isnan(found.loss) and found.steps == 1


def test_fewer_keys_than_any_memory_has_are_refused(tmp_path):
    for keys in (0, 19):
        with pytest.raises(UserError, match=f"keys is {keys}; give 20 or more"):
            compute(Parameters(keys), Store(tmp_path))
    with pytest.raises(UserError, match="keys is 40; give 100 or more"):
        compute(Parameters(40, HEADS), Store(tmp_path))
    with pytest.raises(UserError, match="setting is 'head'; give one of capacity, update, heads"):
        Parameters(setting="head")
    with pytest.raises(UserError, match="heads is 3; give one of"):
        Parameters(heads=3)


def test_a_setting_alone_has_its_own_claims_and_the_head_that_several_are_compared_with(
    monkeypatch, tmp_path
):
    outcome = Recalled(0.25, 0.25, 0.5, 100)
    monkeypatch.setattr("headbook.chapters.why.capacity.recalled", lambda *_: outcome)
    found = compute(Parameters(100, HEADS), Store(tmp_path))
    one = found["recall"].query("heads == 1")
    assert set(one["memory"]) == {ELU} and len(one) == 3
    assert found["claims"]["model"].tolist() == [f"ELU + 1, {heads} heads" for heads in (2, 4, 8)]
    four = compute(Parameters(100, HEADS, 4), Store(tmp_path))
    assert set(four["recall"]["heads"]) == {1, 4}
    assert four["claims"]["model"].tolist() == ["ELU + 1, 4 heads"]
    again = compute(Parameters(600, UPDATE), Store(tmp_path))
    assert set(again["recall"]["setting"]) == {UPDATE}
    assert set(again["claims"]["claim"]) == {"capacity-delta-updates"}
    assert "claims" not in compute(Parameters(40, UPDATE), Store(tmp_path))
    every = compute(Parameters(600), Store(tmp_path))["claims"]
    assert set(every["claim"]) > {"capacity-delta-updates", "capacity-several-heads-more"}
