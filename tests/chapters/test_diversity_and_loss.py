"""Page 34: regressions with known answers, blocks left out, the clock beside diversity."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress

from headbook.artefacts.language import Setting
from headbook.artefacts.watching import NOTEBOOK, TRAINING
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import diversity_and_loss as page
from headbook.chapters.diversity._watched import labels, language_models, look_rows
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.claims.verdict import COLUMNS
from headbook.runs.store import Store


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield page.trained_here(Config("smoke"), Store.default())


def noise(count: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, width))


def test_a_line_is_explained_and_noise_is_not_held_out():
    regressors = noise(40, 2)
    line = regressors @ [0.3, -2.0] + 5
    assert page.r_squared(regressors, line) == pytest.approx(1)
    assert page.held_out(regressors, line) == pytest.approx(1)
    chance = noise(40, 1, 1)[:, 0]
    assert 0 <= page.r_squared(regressors, chance) < 0.3
    assert page.held_out(regressors, chance) < 0.1


def test_one_regressor_is_scipy_s():
    regressors, target = 1e-3 * noise(40, 1) + 0.04, noise(40, 1, 2)[:, 0]
    expected = linregress(regressors[:, 0], target).rvalue ** 2
    assert page.r_squared(regressors, target) == pytest.approx(expected)


def test_a_trend_beats_its_own_blocks_only_where_it_goes_on():
    """Blocks are held out whole: single batches between their neighbours would be foretold."""
    steps = np.repeat(noise(8, 1)[:, 0], 5)
    numbers = np.repeat(np.eye(8), 5, axis=0)  # knows the block of each batch
    assert page.r_squared(numbers[:, 1:], steps) == pytest.approx(1)
    assert page.held_out(numbers[:, 1:], steps) < 0.2


def test_too_few_batches_have_no_fit():
    assert np.isnan(page.r_squared(noise(3, 2), noise(3, 1)[:, 0]))
    assert np.isnan(page.held_out(noise(9, 2), noise(9, 1)[:, 0]))


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    found, name = ledger.load(), "34_diversity_and_loss"
    rows = checked(found, tables["claims"].astype({"seed": str}), name, "test")
    assert set(rows["claim"]) == {each.id for each in found.claims if each.study == name}


def test_models_with_one_pair_of_heads_have_no_claim() -> None:
    found = page.trained_here(Config("smoke", size="smoke"), Store.default())
    assert found["claims"].empty and list(found["claims"]) == list(COLUMNS)
    assert found["fits"]["r2"].isna().all()
    assert page.explained(found).empty


def planted() -> Tables:
    """Two models as published, two layers: the loss is the clock in one, diversity in the other."""
    rng = np.random.default_rng(0)
    updates = np.arange(40)
    rows = []
    for name in ("clock", "diversity"):
        for layer in (1, 2):
            mean, spread = rng.normal(size=(2, 40))
            loss = 5 - 0.05 * updates if name == "clock" else 5 + mean - spread
            rows.append(pd.DataFrame({
                "model": name, "update": updates, "layer": layer, page.MEAN: mean,
                page.SPREAD: spread, "loss_nats": loss if layer == 1 else 5 + rng.normal(size=40),
                "padding": 0.0, "setting": "as published"}))  # fmt: skip
    batches = pd.concat(rows)
    fits = [page._fits(of) for _, of in batches.groupby("model")]
    return {"batches": batches, "fits": pd.concat(fits, ignore_index=True)}


def test_the_clock_predicts_a_trend_and_not_what_only_diversity_knows() -> None:
    first = page.first_layer(planted()).set_index("model")
    assert first.loc["clock", "clock"] == pytest.approx(1) and first.loc["clock", "held_out"] < 0.2
    assert first.loc["diversity", "held_out"] == pytest.approx(1)
    assert first.loc["diversity", "clock"] < 0.3


def test_shares_are_of_the_first_layer_beside_the_article_s() -> None:
    found = page.explained(planted()).set_index("share")
    assert found.loc["first 40 batches", "high"] == pytest.approx(1)
    assert found.loc["first 40 batches", "paper"] == 0.927
    assert found.loc["without the first five", "paper"] == pytest.approx(0.651)
    assert page.orders(planted()).set_index("model")["order"]["diversity"] == pytest.approx(-1)
    facts = page.facts(planted())
    assert facts["clock_ahead_published"] == "1" and facts["models_published"] == "2"
    assert facts["unlike_ahead_published"] == "1"
    assert facts["r2_paper"] == "0.93"


def test_padding_is_a_regressor_only_where_there_is_some() -> None:
    """One model's loss is planted as its padding."""
    tables = planted()
    batches = tables["batches"]
    own = batches["model"] == "diversity"
    batches.loc[own, "padding"] = 9 - batches.loc[own, "loss_nats"]
    batches.loc[~own, "padding"] = 0.0
    # the loss is dissimilarity's, too
    names = ["padding", "padding_later", "both_later", "follows_padding"]
    found = page.first_layer(tables).set_index("model")[names]
    assert found.loc["diversity"].to_list() == pytest.approx([1, 1, 1, 1])
    assert found.loc["clock"].isna().all()
    batches.loc[own & (batches["update"] < page.COLLAPSE), "padding"] = 0.5
    found = page.first_layer(tables).set_index("model")[names]
    assert found.loc["diversity", "padding_later"] == pytest.approx(1)
    assert found.loc["diversity", "padding"] < 0.99


def test_as_published_the_batch_is_measured_as_the_notebook_does(tables: Tables) -> None:
    """The planted fault of the first edition: eight segments, without dropout and padding."""
    model = language_models(Config("smoke"), Setting.PUBLISHED, Store.default())[0]
    rows = tables["batches"][tables["batches"]["model"] == labels(model)["model"]]
    own = look_rows(model, NOTEBOOK).set_index(["update", "layer"])[page.MEAN]
    plain = look_rows(model, TRAINING).set_index(["update", "layer"])[page.MEAN]
    found = rows.set_index(["update", "layer"])[page.MEAN]
    assert found.equals(own.loc[found.index]) and not found.equals(plain.loc[found.index])
    assert rows["padding"].between(0, 1, inclusive="neither").any()
    assert (tables["batches"].query("setting == 'as described'")["padding"] == 0).all()


def test_courses_are_standardised(tables: Tables) -> None:
    rows = page.courses(planted()).groupby("quantity")["value"]
    assert rows.mean().abs().max() < 1e-9 and rows.std().to_list() == pytest.approx([1, 1])
    assert len(page.by_layer(tables)) and len(page.models(tables))
