"""Page 38: which heads share, what is counted of them, and claims with known answers."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.language import initial
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import fewer_heads as page
from headbook.chapters.profile import PROFILES
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield page.trained_here(Config("smoke"), Store.default())


def test_every_number_of_heads_is_asked_for() -> None:
    base = Config("laptop").varied_model()
    runs = Config("laptop").sharing_models()
    assert sorted(run.key_value_heads or 0 for run in runs) == [0, 0, 0, 0, 1, 2, 4]
    assert {run.size.heads for run in runs} | {base.size.heads} == {2, 4, 8, 16}
    (unequal,) = (run.layer_heads for run in runs if run.layer_heads)
    assert list(unequal) == sorted(unequal) and unequal[-1] == 2 * unequal[0] == base.size.heads
    assert {run.training for run in runs} == {base.training}
    assert all(profile.sharing for profile in PROFILES.values() if not profile.joins)


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
    assert page.by_group(values, groups) == pytest.approx((-0.5, 0.1))
    every_second = np.where((np.arange(8) % 2)[:, None] == (np.arange(8) % 2)[None, :], -0.5, 0.1)
    assert page.by_group(every_second, groups) != pytest.approx((-0.5, 0.1))


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
    rows = checked(found, tables["claims"].astype({"seed": str}), "38_fewer_heads", "test")
    assert set(rows["claim"]) == {
        each.id for each in found.claims if each.study == "38_fewer_heads"
    }


def planted() -> Tables:
    """A shared pair costs 0.1 and 0.3 nats, averaging 0.05; DeLighT gains 0.2."""
    names = [("4 heads", 4, 4, 0.0), ("4 heads, 2 shared", 4, 2, 0.2),
             ("4 heads, 1 shared", 4, 1, 0.2), ("2 heads", 2, 2, 0.0)]  # fmt: skip
    quality = [
        {"variant": name, "heads": heads, "key_value_heads": shared, "test_perplexity": 150.0,
         "test_nats": 5.0 + seed + cost + (0.1 if cost and seed else -0.1 if cost else 0.0),
         "seed": seed}
        for seed in (0, 1) for name, heads, shared, cost in names
    ]  # fmt: skip
    light = [
        {"blocks": blocks, "width": width, "of_blocks_million": width / 100, "seed": seed,
         "test_nats": 5.0 + seed + gain}
        for seed in (0, 1)
        for blocks, width, gain in ((page.OURS, 128, 0.0), (page.DELIGHT, 128, -0.2),
                                    (page.OURS, 96, 0.1))
    ]  # fmt: skip
    converted = [{"key_value_heads": 1, "whole_nats": 5.0, "converted_nats": 5.05, "seed": seed}
                 for seed in (0, 1)]  # fmt: skip
    groups = [{"variant": "4 heads, 2 shared", "layer": layer, page.SAME: 0.1 * layer,
               page.OTHER: 0.05, "seed": seed} for seed in (0, 1) for layer in (1, 2)]  # fmt: skip
    tables = {"quality": quality, "light": light, "converted": converted, "groups": groups}
    return {name: pd.DataFrame(rows) for name, rows in tables.items()}


def test_effects_are_against_the_whole_model_of_the_same_seed() -> None:
    found = page.effects(planted()).set_index("variant")
    assert found.loc["4 heads, 1 shared", "value"] == pytest.approx(0.2)
    assert found.loc["4 heads, 1 shared", "converted"] == pytest.approx(0.05)
    assert np.isnan(found.loc["2 heads", "converted"])
    assert found.loc["DeLighT, width 128", "value"] == pytest.approx(-0.2)
    assert found.loc["transformer, width 96", "changed"] != found.loc["2 heads", "changed"]
    assert found.loc["4 heads, 1 shared", "changed"] == page.SHARED


def test_sharers_are_compared_with_others_of_their_layers() -> None:
    (row,) = page.sharers(planted()).to_dict("records")
    assert row["value"] == pytest.approx(0.15 - 0.05)
    assert list(page.groups(planted())["value"]) == pytest.approx([0.1, 0.2, 0.05, 0.05])


def test_facts_name_every_variant() -> None:
    facts = page.facts(planted())
    assert facts["shared_1"] == "+0.200" and facts["delight"] == "−0.200"
    assert facts["heads_2"] == "0.000" and facts["converted_1"] == "+0.050"
    assert facts["groups_cost"] == "22\N{NO-BREAK SPACE}%"  # exp(0.2), of groups, not of one pair


def test_tables_of_one_seed_can_be_drawn(tables: Tables) -> None:
    assert page.effects(tables)["value"].notna().all()
    for shown in (page.sizes, page.light, page.by_layer, page.groups):
        assert len(shown(tables))
