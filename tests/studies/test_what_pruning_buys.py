"""Study 24: gains by hand, and tables of a measurement that was made once."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from headbook.artefacts import speed as stage
from headbook.artefacts.model import trained
from headbook.artefacts.speed import Speed, SpeedRun, Task
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.studies import what_pruning_buys as study
from headbook.studies.config import Config
from headbook.studies.results import Tables, publish, published
from headbook.types import HeadId, Kind

SMOKE = Config("smoke", corpus="controlled-svo")
ROUNDS = 4


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.compute(SMOKE)


def measured(taken: Callable[[int, int, int], float]) -> Speed:
    """A measurement whose seconds `taken` gives, by batch size, mask and round."""
    rows = [
        {"task": str(task), "batch": batch, "mask": mask, "round": number,
         "seconds": taken(batch, mask, number), "sentences": 8, "tokens": 80}
        for number in range(1, ROUNDS + 1) for batch in (1, 64) for task in Task
        for mask in (0, 1)
    ]  # fmt: skip
    sizes = pd.DataFrame(
        {"mask": [0, 1], "heads": [8, 4], "parameters": [1000, 900], "bytes": [4000, 3600],
         "attention_parameters": [250, 150], "largest_logit": [5.0, 4.0],
         "largest_difference": [0.0, 2e-6]}
    )  # fmt: skip
    closed = (HeadId(Kind.ENCODER, 0, 0),)
    return Speed(SpeedRun(((), closed), batches=(1, 64)), pd.DataFrame(rows), sizes, {})


LABELS = {"model": "m", "corpus": "c", "target": "de", "seed": 0}


def claims(taken: Callable[[int, int, int], float]) -> pd.DataFrame:
    return pd.DataFrame(study._claims(LABELS, measured(taken), 1)).set_index("claim")


def test_gains_by_hand() -> None:
    """1.25 s against 1 s is a gain of a fourth, also in rounds that are slower for everybody."""
    found = claims(lambda batch, mask, number: number * (1.25 if batch == 64 and not mask else 1.0))
    faster = found.loc["michel-t4-faster-in-large-batches"]
    assert faster[["value", "low", "high"]].tolist() == pytest.approx([0.25] * 3)
    larger = found.loc["michel-t4-batch-size-matters"]
    assert larger[["value", "low", "high", "baseline"]].tolist() == pytest.approx([0.25] * 3 + [0])
    assert found.loc["michel-s4-cut-equals-masked", "value"] == pytest.approx(5e-7)
    assert found.loc["michel-s4-attention-third-of-parameters", "value"] == 0.25


def test_a_gain_is_the_median_and_its_interval_spans_the_rounds() -> None:
    gains = dict(enumerate((0.1, 0.2, 0.3, 4.0), start=1))
    found = claims(lambda batch, mask, number: 1.0 if mask else 1 + gains[number])
    faster = found.loc["michel-t4-faster-in-large-batches"]
    assert faster["value"] == pytest.approx(0.25)
    assert 0.1 <= faster["low"] < 0.25 < faster["high"] <= 4.0


def test_which_is_the_slower_is_not_mistaken() -> None:
    found = claims(lambda batch, mask, number: 2.0 if mask else 1.0)
    assert found.loc["michel-t4-faster-in-large-batches", "value"] == pytest.approx(-0.5)


def test_every_block_loses_the_same_share() -> None:
    model = trained(SMOKE.one_model(), Store.default())
    half = study._evenly(model, 0.5)
    blocks = [(head.kind, head.layer) for head in half]
    assert len(half) == len(set(blocks)) == 6
    assert study._evenly(model, 0.25) == study._evenly(model, 0.0) == ()


def test_every_claim_of_the_study_has_a_row(tables: Tables) -> None:
    known = ledger.load()
    rows = checked(known, tables["claims"], study.STUDY, "smoke")
    assert sorted(rows["claim"]) == sorted(c.id for c in known.claims if c.study == study.STUDY)
    same = rows.set_index("claim").loc["michel-s4-cut-equals-masked", "value"]
    assert 0 <= same <= 1e-5


def test_masks_are_the_fixed_shares_and_the_sweeps(tables: Tables) -> None:
    sizes = tables["sizes"]
    assert sizes["heads"].iloc[0] == 12 and sizes["share_of_parameters"].iloc[0] == 1
    even = sizes.query("chosen == @study.EVEN")
    assert even["share_pruned"].tolist() == [0, 0.5]
    assert len(sizes) <= 2 + len(SMOKE.preset.pruning.all_penalties)
    rows = tables["speed"]
    assert len(rows) == len(sizes) * 4 * len(Task)
    whole = rows[rows["mask"] == 0]
    assert (whole[["gain_percent", "low_percent", "high_percent"]] == 0).all(axis=None)


def test_the_machine_is_kept_without_its_name(tables: Tables) -> None:
    assert {"processor", "cores", "gpu", "threads"} <= set(tables["machine"].columns)
    assert not {"host", "name", "user"} & set(tables["machine"].columns)


def test_a_redraw_measures_nothing(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_measure", None)
    for name, table in study.compute(SMOKE).items():
        pd.testing.assert_frame_equal(table, tables[name])


def test_tables_of_the_page(tables: Tables) -> None:
    four = study.table_4(tables)
    assert four["batch"].tolist() == [1, 4, 16, 64]
    assert four["BERT in the paper, %"].tolist() == [1.9, 2.7, 17.5, 17.5]
    speed = tables["speed"].query("task == 'decoding' and mask == 1")
    assert np.allclose(four["gain, %"], speed.sort_values("batch")["gain_percent"])
    assert study.size_table(tables)["heads"].iloc[0] == 12


@pytest.mark.parametrize("draw", [study.draw_speed, study.draw_sizes], ids=lambda d: d.__name__)
def test_figures_are_drawn_from_published_tables_as_from_computed(
    draw: Callable, tables: Tables, tmp_path: Path
) -> None:
    publish(study.STUDY, SMOKE, tables, [], tmp_path)
    for given in (tables, published(study.STUDY, "smoke", tmp_path).tables):
        figure = draw(given)
        assert isinstance(figure, Figure)
        figure.canvas.draw()
        assert isinstance(study.read(given), str) and "nan" not in study.read(given)
