"""Page 38: which heads share, what is counted of them, and claims with known answers."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from headbook.artefacts.language import initial
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.studies import fewer_heads as study
from headbook.studies.config import Config
from headbook.studies.profiles import PROFILES
from headbook.studies.results import Tables


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield study.compute(Config("smoke"), Store.default())


def test_every_number_of_heads_is_asked_for() -> None:
    base = Config("laptop").varied_model()
    runs = Config("laptop").sharing_models()
    assert sorted(run.key_value_heads or 0 for run in runs) == [0, 0, 0, 0, 1, 2, 4]
    assert {run.size.heads for run in runs} | {base.size.heads} == {2, 4, 8, 16}
    (unequal,) = (run.layer_heads for run in runs if run.layer_heads)
    assert list(unequal) == sorted(unequal) and unequal[-1] == 2 * unequal[0] == base.size.heads
    assert {run.training for run in runs} == {base.training}
    assert all(profile.sharing for profile in PROFILES.values())


def test_what_decoding_keeps_and_parameters(tables: Tables) -> None:
    rows = tables["quality"].set_index("variant")
    whole, half, one = (rows.loc[name] for name in ("4 heads", "4 heads, 2 shared",
                                                    "4 heads, 1 shared"))  # fmt: skip
    assert whole["cached_numbers_a_token"] == 2 * 2 * 32
    assert half["cached_numbers_a_token"] * 2 == one["cached_numbers_a_token"] * 4 == 128
    assert rows.loc["heads by layer 2-4", "cached_numbers_a_token"] == 2 * (2 + 4) * 8
    missing = 1e6 * (whole["parameters_million"] - one["parameters_million"])
    assert missing == pytest.approx(2 * 2 * 3 * 8 * (32 + 1))
    assert rows.loc["8 heads", "parameters_million"] == whole["parameters_million"]


@pytest.mark.parametrize("groups", [2, 4])
def test_neighbours_are_one_group(groups: int) -> None:
    group = np.arange(8) // (8 // groups)
    values = np.where(group[:, None] == group[None, :], -0.5, 0.1)
    assert study.by_group(values, groups) == pytest.approx((-0.5, 0.1))
    every_second = np.where((np.arange(8) % 2)[:, None] == (np.arange(8) % 2)[None, :], -0.5, 0.1)
    assert study.by_group(every_second, groups) != pytest.approx((-0.5, 0.1))


def test_a_model_with_one_head_has_no_pairs_and_an_unequal_one_no_looks(tables: Tables) -> None:
    rows = tables["diversity"]
    single = rows[rows["variant"] == "1 head"]
    pairs = single[single["metric"] != "attention diversity"]["value"]
    assert pairs.isna().all() and single["value"].notna().any()
    assert "heads by layer 2-4" not in set(rows["variant"])


def test_claims_compare_what_they_say(tables: Tables) -> None:
    nats = tables["quality"].set_index("variant")["test_nats"]
    claims = tables["claims"].set_index("claim")["value"]
    assert claims["gqa-close-to-full"] == nats["4 heads, 2 shared"] - nats["4 heads"]
    expected = nats["4 heads, 1 shared"] - nats["4 heads, 2 shared"]
    assert claims["gqa-multi-query-worse"] == expected
    converted = tables["converted"].set_index("key_value_heads")
    cost = converted["converted_nats"] - converted["whole_nats"]
    assert set(claims["gqa-conversion-needs-training"]) == set(cost.loc[[2, 1]])


def test_delight_stands_beside_ours_at_its_width_and_at_its_weights(tables: Tables) -> None:
    whole, delight, thinner = (row for _, row in tables["light"].iterrows())
    assert whole["blocks"] == thinner["blocks"] != delight["blocks"]
    assert whole["width"] == delight["width"] > thinner["width"]
    assert delight["of_blocks_million"] < whole["of_blocks_million"]
    claims = tables["claims"].set_index("claim")["value"]
    gap = delight["test_nats"] - whole["test_nats"]
    assert claims["delight-as-good-and-lighter"] == pytest.approx(gap)
    gap = delight["test_nats"] - thinner["test_nats"]
    assert claims["delight-better-for-its-weights"] == pytest.approx(gap)


def test_blocks_of_delight_weigh_as_much_as_those_of_the_narrower_model() -> None:
    _, *compared = Config("laptop").light_models()
    light, thinner = (
        sum(each.numel() for each in initial(run, 100).decoder.parameters()) for run in compared
    )
    assert light == pytest.approx(thinner, rel=0.05)


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    found = ledger.load()
    rows = checked(found, tables["claims"].astype({"seed": str}), study.STUDY, "test")
    assert set(rows["claim"]) == {each.id for each in found.claims if each.study == study.STUDY}


def test_figures_and_the_reading_come_from_tables_alone(tables: Tables) -> None:
    before = {name: table.copy() for name, table in tables.items()}
    two_seeds = {name: pd.concat([table, table.assign(seed=1)]) for name, table in tables.items()}
    assert "over 2 seeds" in study.read(two_seeds) and "over 2" not in study.read(tables)
    for draw in (study.draw_variants, study.draw_groups):
        assert isinstance(draw(tables), Figure)
    assert "nan" not in study.read(tables)
    for name, table in before.items():
        pd.testing.assert_frame_equal(table, tables[name])


def test_one_pair_for_all_is_read_seed_by_seed() -> None:
    """The mean of three seeds may be one seed's: least and largest are said with it."""
    rows = [
        {"seed": seed, "heads": 8, "key_value_heads": shared, "test_nats": nats}
        for seed, (own, several, one) in enumerate([(4.9, 5.0, 5.3), (4.9, 5.1, 5.1)])
        for shared, nats in ((8, own), (4, several - 0.05), (2, several), (1, one))
    ]
    said = study._of_one_pair(pd.DataFrame(rows))
    assert said == (
        "One pair for all heads costs, against 2 of them, +0.150 nats (+0.000 to +0.300 over 2 "
        "seeds). "
    )
    none_shared = pd.DataFrame([row for row in rows if row["key_value_heads"] == 8])
    assert study._of_one_pair(none_shared) == ""
