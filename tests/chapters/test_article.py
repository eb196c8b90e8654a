"""Pages 31 and 32: claims from looks with known courses."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.language import Setting
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _article as article
from headbook.chapters.diversity import _training_claims as training_claims
from headbook.chapters.diversity import _watched as diversity_watched
from headbook.chapters.diversity import as_described, as_published
from headbook.chapters.diversity._watched import column, pairs_of, variance
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import ARTICLE, ATTENTION, DISSIMILARITY, FREE, ORTHOGONALITY, RAW
from headbook.runs.store import Store

PAGES = {"31_as_published": as_published, "32_as_described": as_described}
UPDATES, LAYERS = list(range(40)), (1, 2, 3, 4)


@pytest.fixture(scope="module")
def tables() -> Iterator[dict[str, Tables]]:
    config, store = Config("smoke"), Store.default()
    yield {name: page.trained_here(config, store) for name, page in PAGES.items()}


def looks(**courses: object) -> pd.DataFrame:
    """Every metric goes from 1 to 2 in every layer by update 10 and stays, unless a course says."""
    rows = []
    for update in UPDATES:
        for layer in LAYERS:
            row = {"model": "m", "update": update, "layer": layer}
            for metric in ARTICLE:
                for form in (RAW, FREE):
                    name = column(metric, form)
                    course = courses.get(name, lambda update, layer: 1 + min(update, 10) / 10)
                    row[name] = course(update, layer)
            name = variance(DISSIMILARITY, RAW)
            row[name] = courses.get(name, lambda update, layer: update)(update, layer)
            rows.append(row)
    return pd.DataFrame(rows)


def values(**courses: object) -> dict[str, float]:
    return training_claims._values(looks(**courses))


def test_what_rises_everywhere_rises_everywhere():
    found = values()
    assert found["xray-orthogonality-falls"] == found["xray-dissimilarity-rises"] == 1
    assert found["xray-variance-rises"] == 1
    assert found["xray-stable-after-ten"] == pytest.approx(1)
    assert found["xray-first-layer-dwarfs"] == pytest.approx(0)
    assert found["xray-attention-still-in-first-layer"] == pytest.approx(0)


def test_a_layer_that_falls_is_missed():
    name = column(DISSIMILARITY, RAW)
    falls = {name: lambda update, layer: -update if layer == 3 else update}
    assert values(**falls)["xray-dissimilarity-rises"] == 0.75


def test_a_steady_rise_is_not_stable_at_ten():
    name = column(ORTHOGONALITY, RAW)
    found = values(**{name: lambda update, layer: np.exp(update)})["xray-stable-after-ten"]
    assert found == pytest.approx(10 / 35.5)  # the last fifth of 40 looks has its mean at 35.5


def test_a_first_layer_a_hundred_times_the_others():
    name, free = column(ORTHOGONALITY, RAW), column(ORTHOGONALITY, FREE)
    large = {name: lambda update, layer: 100.0 if layer == 1 else 1.0,
             free: lambda update, layer: 0.5}  # fmt: skip
    found = values(**large)
    assert found["xray-first-layer-dwarfs"] == pytest.approx(np.log(100))
    assert found["xray-first-layer-scale-free"] == 0


def test_distinct_layers_and_attention_that_rises_behind_the_first():
    unlike = {
        column(DISSIMILARITY, RAW): lambda update, layer: 0.03 if layer <= 3 else 0.01,
        column(ATTENTION, RAW): lambda update, layer: 1.0 + (layer > 1) * (update > 0),
    }
    found = values(**unlike)
    assert found["xray-first-three-distinct"] == pytest.approx(0.02)
    assert found["xray-attention-still-in-first-layer"] == pytest.approx(np.log(2))


def test_one_pair_has_no_variance():
    none = {variance(DISSIMILARITY, RAW): lambda update, layer: float("nan")}
    assert np.isnan(values(**none)["xray-variance-rises"])


def test_every_two_heads_count_once():
    import torch

    matrix = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]])
    assert pairs_of(matrix).tolist() == [1, 2, 3]
    assert diversity_watched._variance(pairs_of(matrix)) == pytest.approx(2 / 3)
    assert np.isnan(diversity_watched._variance(pairs_of(matrix[:2, :2])))


def test_claims_are_rows_the_scorecard_takes(tables: dict[str, Tables]):
    found = ledger.load()
    for study, of_page in tables.items():
        rows = checked(found, of_page["claims"].astype({"seed": str}), study, "test")
        assert set(rows["claim"]) == {each.id for each in found.claims if each.study == study}


def test_no_claim_on_a_variance_is_put_to_a_model_with_one_pair_of_heads():
    config, store = Config("smoke", size="smoke"), Store.default()
    assert {run.size.heads for run in config.language_models()} == {2}
    published = as_published.trained_here(config, store)
    found = {each.id for each in ledger.load().claims if each.study == "31_as_published"}
    assert set(published["claims"]["claim"]) == found - {"xray-variance-rises-published"}


def test_the_published_model_sees_ahead_and_the_described_one_does_not(tables: dict[str, Tables]):
    published, described = (tables[name]["sight"] for name in PAGES)
    assert (published["before"] > 0).all() and (described["before"] == 0).all()
    for rows in (published, described):
        assert set(rows["version"]) == {diversity_watched.UNTRAINED, diversity_watched.TRAINED}


def test_models_of_one_text_are_held_to_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr(as_described, "frequency_nats", lambda model: counted.append(model) or 6.0)
    model = diversity_watched.first_of(Config("smoke"), Setting.DESCRIBED, Store.default())
    monkeypatch.setattr(as_described, "language_models", lambda *_: [model, model])
    found = as_described.trained_here(Config("smoke"), Store.default())["quality"]
    assert len(counted) == 1 and list(found["frequency_nats"]) == [6.0, 6.0]


def test_frequencies_are_what_a_model_is_held_to(tables: dict[str, Tables]):
    quality = tables["32_as_described"]["quality"].iloc[0]
    assert 0 < quality["frequency_nats"] < np.log(2000)
    assert quality["test_perplexity"] == pytest.approx(np.exp(quality["test_nats"]))


def of_two(**courses: object) -> pd.DataFrame:
    """Two models with the same looks."""
    one = looks(**courses)
    return pd.concat([one, one.assign(model="n")], ignore_index=True)


def test_a_rise_is_the_logarithm_of_last_over_first() -> None:
    found = article.rises(of_two())
    assert len(found) == 2 * len(LAYERS) and found["rise"].tolist() == pytest.approx(
        [np.log(2)] * len(found)
    )
    falling = {article.QUERIES: lambda update, layer: 1 / (1 + min(update, 10) * layer)}
    spread = article.spread(article.rises(of_two(**falling)), "layer")
    assert spread["value"].tolist() == pytest.approx([-np.log(1 + 10 * n) for n in LAYERS])
    assert spread["low"].equals(spread["high"])


def test_the_first_layer_over_the_others_is_a_ratio_of_geometric_means() -> None:
    first = {article.QUERIES: lambda update, layer: 90.0 if layer == 1 else float(layer)}
    rows = article.before_and_after(looks(**first), article.QUERIES)
    expected = 90 / (2 * 3 * 4) ** (1 / 3)
    assert np.exp(article.gap(rows, "after")["m"]) == pytest.approx(expected)
    assert article.times(article.gap(rows, "after")["m"]) == f"{expected:.0f}"


def test_models_that_learn_are_told_from_those_that_do_not(tables: dict[str, Tables]) -> None:
    own = dict(tables["32_as_described"])
    names = list(own["quality"]["model"])
    own["quality"] = own["quality"].assign(test_nats=6.0, frequency_nats=6.0)
    assert as_described.parts(own)[as_described.NOT_LEARNING] == names
    assert "learnt_rise" not in as_described.facts(own)
    own["quality"] = own["quality"].assign(test_nats=4.0)
    assert as_described.parts(own)[as_described.LEARNING] == names
    facts = as_described.facts(own)
    assert facts["learnt_share"] == "0.67" and facts["stuck_models"] == "0"
    rows = as_described.by_model(own)
    assert set(rows["group"]) == {as_described.LEARNING} and rows["paper"].notna().sum() == 1


def test_facts_and_rows_come_of_tables_alone(tables: dict[str, Tables]) -> None:
    for name, page in PAGES.items():
        facts = page.facts(tables[name])
        assert "nan" not in " ".join(map(str, facts.values()))
        assert len(page.models(tables[name])) == tables[name]["looks"]["model"].nunique()
        claims = tables[name]["claims"]
        of_first = claims["claim"].str.startswith(article.FIRST + "-")
        other = tables[name] | {"claims": claims.assign(value=claims["value"].mask(of_first, 0.7))}
        assert set(page.models(other)["first layer, after"]) == {"2.0"}
    rows = as_published.by_layer(tables["31_as_published"])
    assert (rows["low"] <= rows["value"]).all() and (rows["value"] <= rows["high"]).all()


def test_the_article_s_rise_has_a_number_for_each_of_its_layers() -> None:
    assert len(article.ARTICLE_RISE) == 6 and min(article.ARTICLE_RISE) > 0


def test_the_article_s_own_model_stands_beside_its_table() -> None:
    """Of six layers whose numbers double; the other configurations stay out."""
    name = column(ORTHOGONALITY, RAW)
    rows = pd.concat([looks().assign(layer=lambda f, k=k: f["layer"] + k) for k in (0, 4)])
    rows = rows[rows["layer"] <= 6]
    other = rows.assign(model="other", **{name: 99.0})
    found = as_published.beside({"looks": pd.concat([rows, other])})
    assert list(found["layer"]) == [1, 2, 3, 4, 5, 6]
    assert np.allclose(found["first batch: here"], 0) and np.allclose(
        found["last fifth: here"], np.log(2)
    )
    assert np.allclose(found["dissimilarity: here"], 2)


def test_claims_as_published_are_of_what_the_notebook_measures(
    tables: dict[str, Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: numbers of held-out segments, which stand in a table of their own."""
    published = tables["31_as_published"]
    same = published["claims"].set_index(["claim", "model"])["value"]
    held_out = published["held_out"].set_index(["claim", "model"])["value"]
    # two claims are judged over all settings together, and have no row of one model
    both = held_out.index.intersection(same.index)
    assert len(both) > len(held_out) / 2 and not same[both].equals(held_out[both])
    monkeypatch.setattr(training_claims, "as_measured", diversity_watched.look_rows)
    fault = as_published.trained_here(Config("smoke"), Store.default())["claims"]
    fault = fault.set_index(["claim", "model"])["value"]
    assert fault[both].equals(held_out[both])
    assert "held_out" not in tables["32_as_described"]
