"""The tables of measured heads, from sums planted by hand: their numbers are known beforehand."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor

from headbook.artefacts.heads import HeadsRun
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.texts import Text
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement
from headbook.chapters.specialised_heads._head_tables import (
    best_margins,
    head_rows,
    head_scores,
    role_rows,
)
from headbook.chapters.tables import claim_row
from headbook.corpora.readers import Pairs, ParallelCorpus
from headbook.corpora.report import Report
from headbook.heads.measure import RatioSums
from headbook.trees import RELATION_DIRECTIONS

LAYERS, HEADS, COUNTED = 2, 3, 100.0
REPLICATES = 5
NSUBJ, AMOD = 0, 4
"""Columns: the verb asks for its subject, the noun for its adjective."""


def sums(first: Tensor, second: Tensor | None = None, spread: float = 0.0) -> RatioSums:
    """Shares of COUNTED tokens on each half; replicate r is larger by r times `spread`."""
    halves = torch.stack([first, first if second is None else second]).double()
    steps = spread * torch.arange(REPLICATES + 1).reshape(1, -1, *[1] * first.ndim)
    shares = halves[:, None] + steps
    return RatioSums(COUNTED * shares, torch.full_like(shares, COUNTED))


def shares(size: int, **planted: float) -> Tensor:
    """[layer, head, size], 0.01 everywhere but at cells `l0h1c2=share`."""
    filled = torch.full((LAYERS, HEADS, size), 0.01)
    for cell, share in planted.items():
        layer, rest = cell.removeprefix("l").split("h")
        head, column = rest.split("c")
        filled[int(layer), int(head), int(column)] = share
    return filled


def offsets(**columns: float) -> Tensor:
    """[41, 8]: every relation's partner stands at +1 in a fifth of cases, or as given."""
    filled = torch.zeros(41, 8)
    filled[21] = 0.2
    for column, share in columns.items():
        filled[21, int(column.removeprefix("c"))] = share
    return filled


@pytest.fixture
def measurement(tmp_path: Path) -> Measurement:
    """Two layers of three heads: one at -1, one that finds subjects, one at the rare words."""
    none = Pairs((), ())
    corpus = ParallelCorpus("mine", "de", none, none, {}, "", Report())
    run = replace(Config("smoke").one_model(), corpus=str(tmp_path / "mine")).with_seed(5)
    confidence = torch.tensor([[0.9, 0.2, 0.3], [0.4, 0.5, 0.1]])
    planted = {
        "confidence/encoder": sums(confidence, spread=0.01),
        "confidence/cross": sums(confidence / 2),
        "positional/encoder": sums(shares(11, l0h0c4=0.95, l1h2c6=0.6, l1h2c5=0.7, l1h0c8=0.9)),
        "positional/cross": sums(shares(11, l1h1c5=0.7)),
        # on the first half head (1, 0) is the better one, on the second (0, 1)
        "syntactic": sums(shares(8, l0h1c0=0.5, l1h0c0=0.6), shares(8, l0h1c0=0.9, l1h0c0=0.4),
                          spread=0.01),
        "offsets": sums(offsets(), offsets(c0=0.3, c4=0.5), spread=0.005),
        "rare": sums(shares(2, l0h2c0=0.3, l0h2c1=0.55)),
        "random syntactic": sums(torch.full((1, 1, 8), 0.1), torch.full((1, 1, 8), 0.15)),
        "asymmetry": sums(torch.full((LAYERS, HEADS), 0.4)),
        "something else": sums(torch.zeros(1)),
    }  # fmt: skip
    text = Text("held-out", (), (), (), "gold")
    return Measurement(TrainedModel(run, tmp_path, corpus), text, HeadsRun("held-out"), planted)


@pytest.fixture
def encoder(measurement: Measurement) -> pd.DataFrame:
    scores = head_scores(measurement)
    return scores[scores["kind"] == "encoder"].set_index(["layer", "head"])


def without(measurement: Measurement, name: str) -> Measurement:
    """The measurement in which nothing counted for one measure."""
    kept = measurement.sums[name]
    empty = RatioSums(torch.zeros_like(kept.numerator), torch.zeros_like(kept.denominator))
    return replace(measurement, sums={**measurement.sums, name: empty})


def test_labels_name_model_update_and_text(measurement: Measurement):
    assert measurement.labels == {
        "model": "mine w16 s5", "corpus": "mine", "target": "de", "seed": 5, "update": "best",
        "text": "held-out", "parser": "gold",
    }  # fmt: skip
    before = replace(measurement, run=HeadsRun("held-out", 0))
    assert before.labels["update"] == "0"


def test_every_cell_of_every_known_measure_has_a_row(measurement: Measurement):
    rows = head_rows(measurement)
    cells = rows.groupby(["measure", "kind"]).size().to_dict()
    assert cells == {
        ("confidence", "encoder"): 6, ("confidence", "cross"): 6,
        ("positional", "encoder"): 66, ("positional", "cross"): 66,
        ("syntactic", "encoder"): 48, ("rare", "encoder"): 12, ("asymmetry", "encoder"): 6,
    }  # fmt: skip
    (row,) = rows.query("measure == 'positional' and value > 0.9").to_dict("records")
    assert (row["kind"], row["layer"], row["head"], row["detail"]) == ("encoder", 1, 1, "-1")
    found = rows.query("measure == 'rare' and value > 0.5")
    assert found["detail"].tolist() == ["one of two rarest"]
    assert (rows["seed"] == 5).all()


def test_intervals_come_from_the_replicates_alone(measurement: Measurement):
    rows = head_rows(measurement).query("measure == 'confidence' and kind == 'encoder'")
    first = rows.iloc[0]
    ends = torch.quantile(torch.arange(1.0, 6.0) / 100, torch.tensor([0.025, 0.975]))
    assert first["value"] == pytest.approx(0.9)
    assert [first["low"], first["high"]] == pytest.approx((0.9 + ends).tolist())


def test_each_heads_best_is_found(encoder: pd.DataFrame):
    assert len(encoder) == LAYERS * HEADS
    assert encoder["confidence"].tolist() == pytest.approx([0.9, 0.2, 0.3, 0.4, 0.5, 0.1])
    neighbour = encoder[["neighbour_offset", "neighbour"]]
    assert neighbour.loc[(1, 1)].tolist() == ["-1", pytest.approx(0.95)]
    assert neighbour.loc[(2, 3)].tolist() == ["+1", pytest.approx(0.6)]
    assert encoder.loc[(2, 3), "own"] == pytest.approx(0.7)
    assert encoder.loc[(1, 1), "own"] == pytest.approx(0.01)
    far = encoder.loc[(2, 1), ["other_offset", "other"]].tolist()
    assert far == ["+3", pytest.approx(0.9)] and (encoder["own_low"] <= encoder["own"]).all()
    assert encoder.loc[(1, 3), "rare"] == pytest.approx(0.55)
    subject = encoder.loc[(1, 2)]
    assert subject["relation"] == "nsubj head_to_dependent"
    assert subject["accuracy"] == pytest.approx(0.7)  # .5 on one half, .9 on the other
    assert subject["margin"] == pytest.approx(0.7 - 0.25)


def test_the_margin_and_not_the_accuracy_chooses_the_relation(measurement: Measurement):
    syntactic = shares(8, l0h0c0=0.5, l0h0c4=0.45)
    baseline = sums(offsets(c0=0.48, c4=0.2))
    planted = {**measurement.sums, "syntactic": sums(syntactic), "offsets": baseline}
    scores = head_scores(replace(measurement, sums=planted))
    first = scores.query("kind == 'encoder' and layer == 1 and head == 1").iloc[0]
    assert first["relation"] == "amod head_to_dependent"
    assert first["margin"] == pytest.approx(0.25)


def test_a_kind_without_a_measure_has_gaps(measurement: Measurement):
    cross = head_scores(measurement).query("kind == 'cross'")
    assert len(cross) == LAYERS * HEADS
    assert cross[["accuracy", "margin", "rare", "relation"]].isna().all(axis=None)
    assert cross["own"].max() == pytest.approx(0.7)


@pytest.mark.parametrize(("name", "column"), [("rare", "rare"), ("syntactic", "accuracy"),
                                              ("positional/encoder", "neighbour"),
                                              ("positional/encoder", "own")])  # fmt: skip
def test_nothing_counted_is_a_gap_and_no_nought(measurement: Measurement, name: str, column: str):
    scores = head_scores(without(measurement, name)).query("kind == 'encoder'")
    assert len(scores) == LAYERS * HEADS and scores[column].isna().all()


def test_margins_are_differences_replicate_by_replicate(measurement: Measurement):
    margins = best_margins(measurement)
    assert margins.shape == (1 + REPLICATES, len(RELATION_DIRECTIONS))
    assert margins[0, NSUBJ] == pytest.approx(0.4 - 0.3)
    assert margins[0, AMOD] == pytest.approx(0.01 - 0.5)
    steps = (margins - margins[0])[:, NSUBJ]
    torch.testing.assert_close(steps, 0.005 * torch.arange(6).double())


def test_a_relation_without_arcs_has_no_margin(measurement: Measurement):
    assert best_margins(without(measurement, "syntactic")).isnan().all()


def test_roles_are_held_by_whom_they_were_planted_in(measurement: Measurement):
    roles = role_rows(measurement)
    assert len(roles) == LAYERS * HEADS * (2 + 8 + 1)
    held = roles[roles["held"]][["layer", "head", "role", "detail"]]
    assert [tuple(row) for row in held.values] == [
        (1, 1, "positional", "-1"),
        (1, 2, "syntactic", "nsubj head_to_dependent"),
        (1, 3, "rare", "one of two rarest"),
        (2, 1, "syntactic", "nsubj head_to_dependent"),
    ]
    marks = roles.query("detail == 'nsubj head_to_dependent'")["threshold"]
    assert marks.tolist() == pytest.approx([0.25 + 0.10] * 6)


def test_without_arcs_nobody_is_syntactic(measurement: Measurement):
    for names in (("syntactic",), ("offsets",), ("syntactic", "offsets")):
        blank = measurement
        for name in names:
            blank = without(blank, name)
        roles = role_rows(blank)
        if "syntactic" in names:
            assert not (roles["held"] & (roles["role"] == "syntactic")).any()


def gaps(row: dict) -> Iterator[str]:
    return (name for name, value in row.items() if isinstance(value, float) and math.isnan(value))


def test_a_claims_row_has_the_labels_and_gaps_for_what_is_not_given(measurement: Measurement):
    row = claim_row("some-claim", measurement.labels, 0.5, baseline=0.2)
    assert list(row) == ["claim", "model", "corpus", "target", "seed", "value", "low", "high",
                         "baseline"]  # fmt: skip
    assert list(gaps(row)) == ["low", "high"] and row["seed"] == 5
