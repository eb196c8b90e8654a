"""Pruning through training, of a model whose heads first matter alike and then do not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.studies import when_heads_become_important as study
from headbook.studies.config import Config
from headbook.studies.results import Tables, publish, published

CONFIG = Config("smoke")
EARLY, LATE, LAST = 4, 64, 100
"""Updates of the planted model: it translates nothing, heads matter alike, the best."""


@pytest.fixture(scope="module")
def tables(planted: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "trained", lambda run, store: planted.model)
        yield study.compute(CONFIG, Store(tmp_path_factory.mktemp("runs")))


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
    claims = checked(ledger.load(), tables["claims"].astype({"seed": str}), study.STUDY, "test")
    mine = {claim.id for claim in ledger.load().claims if claim.study == study.STUDY}
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
    *_, best = study._checkpoints(planted.model, preset, Store(Path("nowhere")))
    labels = {"model": "m", "corpus": "c", "target": "t", "seed": 0}
    _, grown = study._claims(labels, [best])
    assert np.isnan([grown[name] for name in ("value", "low", "high", "baseline")]).all()


def test_published_tables_draw_and_read_as_this_run_s(tables: Tables, tmp_path: Path) -> None:
    publish(study.STUDY, CONFIG, tables, [], tmp_path)
    for each in (tables, published(study.STUDY, "smoke", tmp_path).tables):
        assert isinstance(study.draw_curves(each), Figure)
        assert isinstance(study.draw_prunable(each), Figure)
        assert "2 of 3 checkpoints" in study.read(each)
        assert f"At update {LATE}" in study.read(each)
        assert len(study.checkpoints_table(each)) == 3


def test_where_nothing_is_translated_the_page_says_so(tables: Tables) -> None:
    nothing = {name: table[table["update"] == "best"].copy() for name, table in tables.items()
               if name != "claims"}  # fmt: skip
    nothing["checkpoints"]["bleu"] = 0.0
    nothing["curves"]["kept"] = float("nan")
    nothing["prunable"][["share", "low", "high"]] = float("nan")
    assert isinstance(study.draw_curves(nothing), Figure)
    assert isinstance(study.draw_prunable(nothing), Figure)
    assert "says nothing" in study.read(nothing)
