"""Page 23: a model whose heads first matter alike and then do not; numbers of planted tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen import when_heads_become_important as page
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store

CONFIG = Config("smoke")
EARLY, LATE, LAST = 4, 64, 100
"""Updates of the planted model: it translates nothing, heads matter alike, the best."""


@pytest.fixture(scope="module")
def tables(planted: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "trained", lambda run, store: planted.model)
        yield page.trained_here(CONFIG, Store(tmp_path_factory.mktemp("runs")))


def test_checkpoints_that_translate_nothing_are_not_pruned(tables: Tables, planted: Any) -> None:
    checkpoints = tables["checkpoints"].set_index("update")
    assert list(checkpoints.index) == [str(EARLY), str(LATE), "best"]
    assert list(checkpoints["pruned"]) == [False, True, True]
    assert checkpoints.loc[str(EARLY), "bleu"] == 0
    assert set(tables["curves"]["update"]) == set(tables["prunable"]["update"])
    assert set(tables["curves"]["update"]) == {str(LATE), "best"}
    assert sum(len(run.masks) for run in planted.masked_runs if run.update == EARLY) == 1


def test_the_best_model_is_not_looked_at_twice(tables: Tables, planted: Any) -> None:
    assert {run.update for run in planted.masked_runs} == {EARLY, LATE, None}
    assert tables["checkpoints"].set_index("update").loc["best", "at_update"] == LAST


def test_every_checkpoint_is_pruned_by_its_own_importance(tables: Tables, planted: Any) -> None:
    assert [run.update for run in planted.importance_runs] == [LATE, None]


def test_kept_is_of_the_checkpoint_s_own_bleu(tables: Tables) -> None:
    whole = tables["checkpoints"].set_index("update")["bleu"]
    curves = tables["curves"]
    assert np.allclose(curves["kept"], curves["bleu"] / curves["update"].map(whole))
    assert (curves.loc[curves["level"] == 0, "kept"] == 1).all()


def test_where_heads_matter_alike_every_order_falls_on_one_line(tables: Tables) -> None:
    late = tables["curves"][tables["curves"]["update"] == str(LATE)]
    assert np.allclose(late["kept"], np.maximum(0, 1 - 0.05 * late["pruned"]), atol=0.01)
    shares = tables["prunable"].set_index(["update", "least"]).loc[(str(LATE), 0.85), "share"]
    assert list(shares) == pytest.approx([0.15 / 0.05 / 24] * 2, abs=0.01)


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    claims = checked(
        ledger.load(),
        tables["claims"].astype({"seed": str}),
        "23_when_heads_become_important",
        "test",
    )
    mine = {
        claim.id
        for claim in ledger.load().claims
        if claim.study == "23_when_heads_become_important"
    }
    assert set(claims["claim"]) == mine


def test_claims_are_of_the_best_checkpoint_and_of_the_first_that_translates(
    tables: Tables,
) -> None:
    shares = tables["prunable"].query("order == 'importance' and least == 0.85")
    shares = shares.set_index("update")
    claims = tables["claims"].set_index("claim")
    late, grown = (
        claims.loc[f"michel-f5-{name}"] for name in ("late-prunable", "early-heads-equal")
    )
    assert late["value"] == shares.loc["best", "share"]
    assert late["value"] > 0.3
    assert grown["value"] == pytest.approx(late["value"] - shares.loc[str(LATE), "share"])
    assert grown["baseline"] == shares.loc[str(LATE), "share"]
    assert grown["low"] > 0


def test_without_an_earlier_checkpoint_there_is_no_difference(planted: Any) -> None:
    preset = CONFIG.preset.pruning
    *_, best = page._checkpoints(planted.model, preset, Store(Path("nowhere")))
    labels = {"model": "m", "corpus": "c", "target": "t", "seed": 0}
    _, grown = page._claims(labels, [best])
    assert np.isnan([grown[name] for name in ("value", "low", "high", "baseline")]).all()


def test_facts_of_the_planted_model(tables: Tables) -> None:
    found = page.facts(tables)
    assert found["first_update"] == str(LATE) and found["last_update"] == str(LAST)
    assert found[f"lead_{LATE}"].startswith("0 ")  # heads matter alike: no order is better
    assert found["lead_best"].startswith("+")
    assert found["early_importance_short"] == found["early_random_short"]


def test_the_figure_has_no_checkpoint_that_has_hardly_learnt(tables: Tables) -> None:
    assert set(page.through_training(tables)["at_update"]) == {LATE, LAST}
    weak = {name: table.copy() for name, table in tables.items()}
    weak["checkpoints"].loc[weak["checkpoints"]["update"] == str(LATE), "bleu"] = 0.1
    assert set(page.through_training(weak)["at_update"]) == {LAST}
    assert len(page.checkpoints(weak)) == 2


def test_a_model_that_translates_nothing_has_tables_all_the_same(tables: Tables) -> None:
    nothing = {name: table[table["update"] == "best"].copy() for name, table in tables.items()
               if name != "claims"}  # fmt: skip
    nothing["checkpoints"]["bleu"] = 0.0
    nothing["prunable"][["share", "low", "high"]] = float("nan")
    assert page.through_training(nothing)["value"].isna().all()
    assert isinstance(page.by_share(nothing), pd.DataFrame)


def test_a_lead_at_one_share_is_of_the_best_checkpoint():
    """The planted fault: checkpoints on the way, where random order leads."""
    rows = [
        {"model": "one", "update": update, "level": level, "order": order, "kept": kept}
        for update, turn in (("64", -1), ("best", 1))
        for level in (0.5, 0.8)
        for order, kept in (("importance", 0.4 + 0.1 * turn * level), ("random", 0.4))
    ]
    lead = page.lead_at({"curves": pd.DataFrame(rows)}, 0.8)
    assert lead.to_dict() == pytest.approx({"one": 0.08})
