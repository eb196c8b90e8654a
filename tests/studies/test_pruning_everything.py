"""Study 19 at profile smoke, and its figures where the order of heads is planted."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.studies import pruning_everything as study
from headbook.studies.config import Config
from headbook.studies.results import Tables
from headbook.types import Kind


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.compute(Config("smoke"))


def planted(layers: int) -> Tables:
    """One sweep of two points in which kinds go one after another."""
    rows = [
        {"model": "m", "penalty": penalty, "pruned": gone * layers * 2, "pruned_of": 6 * layers,
         "kind": str(kind), "layer": layer + 1, "kept": 0 if at < gone else 2, "of": 2}
        for gone, penalty in ((1, 0.1), (2, 0.2))
        for at, kind in enumerate(Kind)
        for layer in range(layers)
    ]  # fmt: skip
    return {"layers": pd.DataFrame(rows)}


def test_every_claim_of_the_study_has_a_row_for_every_model(tables: Tables):
    known = ledger.load()
    rows = checked(known, tables["claims"], study.STUDY, "smoke")
    assert set(rows["claim"]) == {each.id for each in known.claims if each.study == study.STUDY}
    assert not rows.duplicated(["claim", "model"]).any()


def test_layers_add_up_to_the_points(tables: Tables):
    points = tables["points"].query("arm == 'gates'").set_index("penalty")
    layers = tables["layers"].groupby(["penalty", "kind"])["kept"].sum().unstack()
    for kind in Kind:
        assert (layers[str(kind)] == points[f"{kind}_kept"]).all()
    assert (layers.sum(axis=1) == points["kept"]).all()


def test_lines_by_kind_start_whole_and_follow_the_points():
    (axis,) = study.draw_kinds(planted(3)).axes
    lines = {line.get_label(): line.get_xydata() for line in axis.lines}
    cross, decoder = lines["cross-attention"], lines["decoder self-attention"]
    assert np.array_equal(cross, [[0, 6], [6, 6], [12, 6]])
    assert np.array_equal(decoder, [[0, 6], [6, 6], [12, 0]])
    assert np.array_equal(lines["heads in random order"], [[0, 6], [18, 0]])


@pytest.mark.parametrize(
    ("layers", "labels"),
    [
        (2, ["layer 1", "layer 2"]),
        (3, ["low (layer 1)", "middle (layer 2)", "high (layer 3)"]),
        (6, ["low (layers 1-2)", "middle (layers 3-4)", "high (layers 5-6)"]),
    ],
)
def test_layers_are_drawn_in_thirds_where_there_are_thirds(layers: int, labels: list[str]):
    first, _ = study.draw_layers(planted(layers)).axes
    assert [line.get_label() for line in first.lines][:-1] == labels


def test_figures_and_reading(tables: Tables):
    for draw in (study.draw_bleu, study.draw_kinds, study.draw_layers):
        figure = draw(tables)
        assert isinstance(figure, Figure) and figure.axes
        figure.canvas.draw()
    assert len(study.arms_table(tables))
    assert "nan" not in study.read(tables).lower().split()
