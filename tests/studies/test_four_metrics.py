"""The four metrics' page: known answers, what moves a number, and the first layer."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import ARTICLE, FREE, ORTHOGONALITY, RAW
from headbook.runs.store import Store
from headbook.studies import four_metrics as study
from headbook.studies.config import Config
from headbook.studies.results import Tables


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "SEEDS", 1)
        yield study.compute(Config("smoke", corpus="controlled-sov"), Store.default())


def known(tables: Tables) -> pd.DataFrame:
    return tables["known"].set_index("heads")


def test_known_answers(tables: Tables) -> None:
    found = known(tables)
    free = found["both, scale-free"]
    same = ["the same head twice", "one ten times the other", "one turned by a rotation"]
    assert np.allclose(free[same], 1, atol=1e-6)
    assert free["no token in common"] == 0
    assert found["dissimilarity"]["the same head twice"] == pytest.approx(-1, abs=1e-6)
    assert abs(found["dissimilarity"]["one turned by a rotation"]) < 0.5
    raw = found["orthogonality, raw"]
    factor = raw["one ten times the other"] / raw["the same head twice"]
    assert factor == pytest.approx(10)


def test_a_constant_moves_the_raw_forms_alone(tables: Tables) -> None:
    rows = tables["scales"].query("changed == 'standard deviation'").set_index("to")
    assert np.allclose(rows["scale_free"], rows["scale_free"].loc[1.0])
    for column in ("orthogonality", "non_orthogonality"):
        assert rows.loc[4.0, column] / rows.loc[1.0, column] == pytest.approx(16, rel=1e-5)


def test_the_article_s_embeddings_make_the_first_layer(tables: Tables) -> None:
    claims = tables["claims"].set_index("claim")["value"]
    assert claims["xray-first-layer-outlier"] > 3
    assert abs(claims["xray-first-layer-embedding"]) < 1
    start = tables["start"]
    chosen = (start["metric"] == ORTHOGONALITY) & (start["form"] == RAW)
    rows = np.log(start[chosen & (start["embeddings"] == "as the article's")]["value"])
    gap = rows.iloc[0] - rows.iloc[1:].mean()
    assert claims["xray-first-layer-outlier"] == pytest.approx(gap)


def test_every_kind_and_version_has_every_measure(tables: Tables) -> None:
    rows = tables["models"]
    assert set(rows["version"]) == {"trained", "untrained"}
    counts = rows.groupby(["kind", "version", "layer"])["metric"].count()
    assert len(counts) == 12 and counts.nunique() == 1
    four = rows[rows["metric"].isin(ARTICLE)].groupby("metric")["form"].agg(set)
    assert all(forms == {RAW, FREE} for forms in four) and len(four) == 4
    free = rows[rows["form"] == FREE]["value"]
    assert free.between(-1 - 1e-6, 1 + 1e-6).all()
    bounded = rows.dropna(subset="low")
    assert (bounded["low"] <= bounded["high"]).all() and len(bounded)


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    found = ledger.load()
    claims = checked(found, tables["claims"].astype({"seed": str}), study.STUDY, "test")
    assert set(claims["claim"]) == {c.id for c in found.claims if c.study == study.STUDY}


def test_figures_tables_and_reading_stand_on_the_tables_alone(tables: Tables) -> None:
    for draw in (study.draw_scales, study.draw_start, study.draw_models):
        assert isinstance(draw(tables), Figure)
    assert len(study.models_table(tables)) == tables["models"].groupby(["metric", "form"]).ngroups
    said = study.read(tables)
    assert "in logarithms" in said and "nan" not in said


def test_an_empty_probe_is_refused(tmp_path: Path) -> None:
    from headbook.types import UserError

    with pytest.raises(UserError, match="no token was measured"):
        study.unrelated(0, 4, 1.0, seed=0).grams()
