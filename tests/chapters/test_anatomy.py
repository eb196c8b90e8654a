"""Page 01: heads by hand, a planted asymmetry in every table, and gates of the claims."""

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.anatomy import anatomy
from headbook.chapters.anatomy._heads import constructions
from headbook.claims.ledger import load as ledger
from headbook.claims.scorecard import checked
from headbook.heads.nulls import NullValues
from headbook.looking.load import load
from headbook.runs.store import Store


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    given = anatomy.Parameters(models=("firefox-en-pt",), sentences=12, nulls=1)
    return anatomy.compute(given, Store(tmp_path_factory.mktemp("store")))


def test_heads_by_hand_have_the_share_they_must_have() -> None:
    for row in constructions():
        assert row["measured"] == pytest.approx(row["known"], abs=0.01), row["head"]
    last = row
    assert last["previous"] == 1 and last["previous_symmetric"] == 0


def test_with_one_projection_nothing_antisymmetric_is_left(tables) -> None:
    heads = tables["released"]
    assert len(heads) == 48
    assert heads["tied"].max() < 1e-6 < heads["scores"].min()


def test_the_figures_matrices_are_parts_of_one(tables) -> None:
    for version, rows in tables["matrices"].groupby("version"):
        cells = {
            name: rows.pivot(index="query", columns="key", values=name).to_numpy()
            for name in anatomy.MATRICES
        }
        assert cells["symmetric"] + cells["antisymmetric"] == pytest.approx(cells["score"])
        flat = np.abs(cells["antisymmetric"]).max() < 1e-4
        assert flat == (version == anatomy.ONE)
    assert tables["matrices"]["head"].nunique() == 1


def test_claims_are_the_heads_at_the_edge(tables) -> None:
    claims = checked(ledger(), tables["claims"], "01_anatomy", "test").set_index("claim")
    heads = tables["released"]
    first, second = (claims.loc[name] for name in anatomy.CLAIMS)
    assert first["value"] == pytest.approx(heads["scores"].min())
    assert second["value"] == pytest.approx(heads["tied"].max(), abs=1e-9)
    assert first["low"] <= first["value"] <= first["high"]


def test_a_rule_that_null_networks_pass_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load("firefox-en-pt")
    for share, closed in ((0.4, True), (0.01, False)):
        values = NullValues({"scores": torch.full((3, 2, 2), share)})
        monkeypatch.setattr(anatomy, "null_values", lambda *_, values=values: values)
        subject = anatomy.Subject(model, "text", [], model.network)
        assert anatomy._closed(subject, 3).startswith("diagnostic") == closed
