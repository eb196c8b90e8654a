"""Several seeds of one measurement: means, intervals and what one seed alone is told of."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._seeds import mean_table, of_each_seed
from headbook.chapters.tables import claim_row, mean_claims

LABELS = {"model": "text 8 heads", "corpus": "text", "target": "en"}


def claims(seed: int, value: float, baseline: float = 2.0) -> pd.DataFrame:
    rows = [claim_row(f"claim-{n}", LABELS | {"seed": seed}, value + n, baseline=baseline + seed)
            for n in (0, 1)]  # fmt: skip
    return pd.DataFrame(rows)


def tables(config: Config) -> Tables:
    quality = pd.DataFrame(
        {"variant": ["b", "a"], "weights": [7, 5], "nats": [3.0 + config.seed, 1.0], "last": 0.5}
    )
    return {"quality": quality, "claims": claims(config.seed, 0.1 * config.seed)}


@pytest.fixture
def several() -> Tables:
    return of_each_seed([Config("smoke", seed=seed) for seed in (0, 1, 2)], tables)


@pytest.fixture
def alone() -> Tables:
    return of_each_seed([Config("smoke", seed=1)], tables)


def test_rows_name_their_seed(several: Tables) -> None:
    assert list(several["quality"]["seed"]) == [0, 0, 1, 1, 2, 2]


def test_a_claim_is_the_mean_with_students_interval(several: Tables) -> None:
    first, second = several["claims"].to_dict("records")
    assert (first["claim"], second["claim"]) == ("claim-0", "claim-1")
    assert first["value"] == pytest.approx(0.1) and second["value"] == pytest.approx(1.1)
    expected = stats.t.interval(0.95, 2, loc=0.1, scale=stats.sem([0.0, 0.1, 0.2]))
    assert (first["low"], first["high"]) == pytest.approx(expected)
    assert first["baseline"] == pytest.approx(3.0) and first["seed"] == ""


def test_models_are_not_averaged_with_each_other() -> None:
    rows = pd.concat([claims(0, 1.0), claims(0, 5.0).assign(model="text 4 heads")])
    found = mean_claims(rows)
    assert list(found["value"]) == [1.0, 2.0, 5.0, 6.0]


def test_one_seed_has_no_interval_and_is_named(alone: Tables) -> None:
    first = alone["claims"].iloc[0]
    assert first["seed"] == 1 and np.isnan(first["low"]) and np.isnan(first["high"])


def test_a_seed_without_a_number_leaves_the_mean_without_one() -> None:
    found = mean_claims(pd.concat([claims(0, 1.0), claims(1, float("nan"))]))
    assert found["value"].isna().all()


def test_a_table_is_a_mean_in_its_own_order(several: Tables) -> None:
    found = mean_table(several["quality"], ["variant"], "nats")
    assert list(found.columns) == ["variant", "weights", "nats", "nats_sd", "last", "seeds"]
    assert list(found["variant"]) == ["b", "a"] and list(found["weights"]) == [7, 5]
    assert pd.api.types.is_integer_dtype(found["weights"])
    assert list(found["nats"]) == [4.0, 1.0] and list(found["nats_sd"]) == [1.0, 0.0]
    assert list(found["seeds"]) == [3, 3]


def test_a_table_of_one_seed_stays_as_it_is(alone: Tables) -> None:
    found = mean_table(alone["quality"], ["variant"], "nats")
    pd.testing.assert_frame_equal(found, alone["quality"].drop(columns="seed"))


def test_seeds_of_the_profiles() -> None:
    full = Config("full")
    assert [each.seed for each in full.of_varied_seeds()] == [0, 1, 2, 3, 4]
    assert [each.seed for each in Config("full", seed=7).of_varied_seeds()] == [7]
    assert {run.training.seed for run in full.variants()} == {0, 1, 2, 3, 4}
    assert [each.seed for each in Config("laptop").of_varied_seeds()] == [0, 1, 2]
    first, *_ = full.of_varied_seeds()
    assert first.sharing_models() == full.sharing_models()
    assert len(set(full.variants())) == 5 * len(set(first.variants()))
