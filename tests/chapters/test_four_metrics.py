"""Page 30: known answers, what moves a number, the first layer, and the numbers of the prose."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import four_metrics as page
from headbook.chapters.diversity._scores import unrelated
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import ARTICLE, FREE, NON_ORTHOGONALITY, ORTHOGONALITY, RAW
from headbook.runs.store import Store
from headbook.types import UserError


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "SEEDS", 1)
        yield page.trained_here(Config("smoke", corpus="controlled-sov"), Store.default())


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
    lines = page.before_training(tables).query("layer == 1").set_index("model")["value"]
    assert lines["before training, article's embeddings"] == pytest.approx(
        claims["xray-first-layer-outlier"]
    )


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
    found, name = ledger.load(), "30_four_metrics"
    claims = checked(found, tables["claims"].astype({"seed": str}), name, "test")
    assert set(claims["claim"]) == {each.id for each in found.claims if each.study == name}


def planted(tables: Tables, first: float) -> Tables:
    """With a released model whose first layer has `first` times the raw numbers of the second."""
    row = {"kind": "encoder", "model": "minilm", "text": "ewt-sample", "sentences": 7}
    rows = [
        row
        | {"layer": layer, "version": version}
        | {f"{metric}, {form}": value for metric in ARTICLE for form, value in forms.items()}
        for version in ("released", "weights permuted")
        for layer, forms in ((1, {RAW: 40.0 * first, FREE: 0.25}), (2, {RAW: 40.0, FREE: 0.5}))
    ]
    return tables | {"released": pd.DataFrame(rows)}


@pytest.mark.parametrize(("first", "said"), [(1.0, "1.0"), (0.5, "0.5"), (120.0, "120")])
def test_a_first_layer_that_stands_out_is_told_from_one_that_does_not(
    tables: Tables, first: float, said: str
) -> None:
    facts = page.facts(planted(tables, first))
    assert facts["minilm_times"] == facts["minilm_contexts"] == said
    assert facts["minilm_free"] == "−0.25"
    lines = page.before_training(planted(tables, first)).query("model == 'MiniLM'")
    assert lines["value"].tolist() == pytest.approx([np.log(first), 0])


def test_the_article_s_line_is_its_own_gap() -> None:
    (low, high) = ledger.load().claim("xray-first-layer-outlier").paper[0].values
    assert low < page.paper()["value"].iloc[0] < high


def test_released_models_are_measured_beside_networks_of_permuted_weights(tmp_path) -> None:
    parameters = page.Parameters(models=("minilm",), first=2)
    found = page.compute(parameters, Store(tmp_path))["released"]
    assert list(found) and set(found["version"]) == {"released", "weights permuted"}
    assert len(found) == 12 and (found["sentences"] == 2).all()
    assert found[f"{NON_ORTHOGONALITY}, {FREE}"].between(0, 1 + 1e-6).all()
    whole, null = (own[f"{ORTHOGONALITY}, {RAW}"] for _, own in found.groupby("version"))
    assert not np.allclose(whole, null)


def test_an_empty_probe_is_refused() -> None:
    with pytest.raises(UserError, match="no token was measured"):
        unrelated(0, 4, 1.0, seed=0).grams()
