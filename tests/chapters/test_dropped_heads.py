"""Page 37: models that differ in DropHead alone, the same heads closed in all, known rises."""

from collections.abc import Iterator
from functools import partial

import pandas as pd
import pytest

from headbook.artefacts.language import language_model
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _removed_heads as removed_heads
from headbook.chapters.diversity import dropped_heads as page
from headbook.chapters.profile import PROFILES
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.models.gates import all_heads
from headbook.runs.store import Store


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield page.trained_here(Config("smoke"), Store.default())


def test_both_schedules_differ_from_the_base_in_nothing_else() -> None:
    base = Config("laptop").varied_model()
    runs = Config("laptop").dropping_models()
    assert {run.training for run in runs} == {base.training}
    assert {run.size for run in runs} == {base.size}
    for flat, v in zip(runs[::2], runs[1::2], strict=True):
        assert flat.drop_head.turn is None and flat.drop_head.start == flat.drop_head.end
        assert v.drop_head.rate(1, 800) == flat.drop_head.rate(1, 800) > 0
        assert v.drop_head.turn == base.training.warmup / base.training.updates
    assert all(profile.dropping for profile in PROFILES.values() if not profile.joins)


def test_a_v_is_compared_with_the_one_rate_it_starts_from(tables: Tables) -> None:
    nats = tables["quality"].set_index("variant")["test_nats"]
    rows = tables["claims"].set_index(["claim", "model"])["value"].loc["zhou-v-beats-one-rate"]
    assert len(rows) == 2
    for model, value in rows.items():
        rate = model.split(", ")[1].split()[0]
        assert value == nats[f"V, {rate}"] - nats[f"one rate, {rate}"]


def test_every_model_loses_the_same_heads() -> None:
    base = language_model(Config("smoke").varied_model(), Store.default())
    heads = all_heads(base.model())
    first, again, other = (removed_heads.shuffled(heads, order) for order in (0, 0, 1))
    assert first == again != other and sorted(first) == sorted(other) == sorted(heads)


def test_without_heads_the_loss_is_another_and_with_all_it_is_the_model_s(tables: Tables) -> None:
    rows = tables["removed"]
    assert set(rows["variant"]) == set(tables["quality"]["variant"])
    base = rows[rows["variant"] == page.NONE].set_index("share")["valid_nats"]
    assert base.loc[0.0] != base.loc[0.5]
    model = language_model(Config("smoke").varied_model(), Store.default())
    segments = model.segments(model.text.valid)[: page.SEGMENTS]
    assert base.loc[0.0] == pytest.approx(model.nats(model.model(), segments), rel=1e-5)


def test_a_model_that_lost_its_heads_once_is_not_measured_again(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves of many models is taken up; other text is measured anew."""

    def fail(*_: object) -> Iterator[dict[str, object]]:
        raise AssertionError("measured again")

    monkeypatch.setattr(page, "without_heads", fail)
    again = page.trained_here(Config("smoke"), Store.default())
    pd.testing.assert_frame_equal(again["removed"], tables["removed"])
    monkeypatch.setattr(page, "RemovedRun", partial(page.RemovedRun, segments=3))
    with pytest.raises(AssertionError, match="measured again"):
        page.trained_here(Config("smoke"), Store.default())


def test_claims_compare_what_they_say(tables: Tables) -> None:
    claims = tables["claims"].set_index("claim")["value"]
    nats = tables["quality"].set_index("variant")["test_nats"]
    assert list(claims["zhou-drop-head-helps"]) == [
        nats[f"V, {rate}"] - nats[page.NONE] for rate in (0.2, 0.1)
    ]
    rows = tables["diversity"]
    means = rows[rows["metric"] == DISSIMILARITY].groupby("variant")["value"].mean()
    expected = [
        means[f"{kind}, {rate}"] - means[page.NONE]
        for rate in (0.2, 0.1)
        for kind in (page.CONSTANT, page.V)
    ]
    assert list(claims["drop-head-redundant"]) == pytest.approx(expected)


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    found = ledger.load()
    rows = checked(found, tables["claims"].astype({"seed": str}), "37_dropped_heads", "test")
    assert set(rows["claim"]) == {
        each.id for each in found.claims if each.study == "37_dropped_heads"
    }


def planted() -> Tables:
    """Two seeds; the V is 0.1 nats better in one and 0.3 in the other, and half as steep."""
    loss = {(page.NONE, 0): 5.0, (page.NONE, 1): 5.2, ("V, 0.2", 0): 4.9, ("V, 0.2", 1): 4.9,
            ("one rate, 0.2", 0): 5.1, ("one rate, 0.2", 1): 5.1}  # fmt: skip
    quality = [
        {"variant": name, "train_nats": nats, "valid_nats": nats, "test_nats": nats,
         "test_perplexity": 150.0, "seed": seed} for (name, seed), nats in loss.items()
    ]  # fmt: skip
    removed = [
        {"variant": name, "order": order, "share": share, "removed": 0, "of": 4, "seed": seed,
         "valid_nats": nats + share * (1 + order) * (0.5 if name == "V, 0.2" else 1.0)}
        for (name, seed), nats in loss.items() for order in (0, 1) for share in (0.0, 0.4, 0.9)
    ]  # fmt: skip
    diversity = [
        {"layer": layer, "value": nats * layer, "metric": DISSIMILARITY, "variant": name,
         "seed": seed} for (name, seed), nats in loss.items() for layer in (1, 2)
    ]  # fmt: skip
    return {"quality": pd.DataFrame(quality), "removed": pd.DataFrame(removed),
            "diversity": pd.DataFrame(diversity)}  # fmt: skip


def test_effects_are_against_the_model_without_of_the_same_seed() -> None:
    found = page.effects(planted()).set_index(["measure", "variant"])
    assert found.loc[("test loss", "V, 0.2"), "value"] == pytest.approx(-0.2)
    # over two orders the whole model rises by 0.4 and 0.8, at the share next to a half
    rise = found.loc[("rise without half the heads", "V, 0.2")]
    assert rise["value"] == pytest.approx(-0.3) and rise["low"] == pytest.approx(rise["high"])
    assert found.loc[("rise without half the heads", "one rate, 0.2"), "value"] == pytest.approx(0)
    alike = page.unlike(planted()).set_index("variant")["value"]
    assert alike["V, 0.2"] == pytest.approx(-0.3)


def test_facts_have_the_signs_of_the_tables() -> None:
    facts = page.facts(planted())
    assert facts["loss_v_02"] == "−0.200" and facts["base_rise"] == "0.600"
    assert facts["v_beats_v_02"] == "−0.200" and facts["v_beats_v_02_between"] == "[−0.200, −0.200]"
    assert facts["seeds"] == "2"
    assert facts["level_none"] == "+7.650" and facts["level_v_02"] == "+7.350"


def test_tables_of_one_seed_can_be_drawn(tables: Tables) -> None:
    assert page.effects(tables)["low"].isna().all() and len(page.effects(tables)) == 2 * 4
    assert len(page.quality(tables)) == 5 and page.closing(tables)["value"].notna().all()
    assert set(page.by_layer(tables)["variant"]) == set(tables["quality"]["variant"])
