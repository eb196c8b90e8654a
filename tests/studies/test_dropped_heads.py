"""Page 37: what is compared with what, the same heads taken from every model, known rises."""

from collections.abc import Iterator
from functools import partial

import pandas as pd
import pytest
from matplotlib.figure import Figure

from headbook.artefacts.language import language_model
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.studies import dropped_heads as study
from headbook.studies import removed_heads
from headbook.studies.config import Config
from headbook.studies.profiles import PROFILES
from headbook.studies.results import Tables


@pytest.fixture(scope="module")
def tables() -> Iterator[Tables]:
    yield study.compute(Config("smoke"), Store.default())


def test_both_schedules_differ_from_the_base_in_nothing_else() -> None:
    base = Config("laptop").varied_model()
    runs = Config("laptop").dropping_models()
    assert {run.training for run in runs} == {base.training}
    assert {run.size for run in runs} == {base.size}
    for flat, v in zip(runs[::2], runs[1::2], strict=True):
        assert flat.drop_head.turn is None and flat.drop_head.start == flat.drop_head.end
        assert v.drop_head.rate(1, 800) == flat.drop_head.rate(1, 800) > 0
        assert v.drop_head.turn == base.training.warmup / base.training.updates
    assert all(profile.dropping for profile in PROFILES.values())


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
    base = rows[rows["variant"] == study.NONE].set_index("share")["valid_nats"]
    assert base.loc[0.0] != base.loc[0.5]
    model = language_model(Config("smoke").varied_model(), Store.default())
    segments = model.segments(model.text.valid)[: study.SEGMENTS]
    assert base.loc[0.0] == pytest.approx(model.nats(model.model(), segments), rel=1e-5)


def test_a_model_that_lost_its_heads_once_is_not_measured_again(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves of many models is taken up; other text is measured anew."""

    def fail(*_: object) -> Iterator[dict[str, object]]:
        raise AssertionError("measured again")

    monkeypatch.setattr(study, "without_heads", fail)
    again = study.compute(Config("smoke"), Store.default())
    pd.testing.assert_frame_equal(again["removed"], tables["removed"])
    monkeypatch.setattr(study, "RemovedRun", partial(study.RemovedRun, segments=3))
    with pytest.raises(AssertionError, match="measured again"):
        study.compute(Config("smoke"), Store.default())


def test_a_rise_is_over_the_orders() -> None:
    rows = [("a", order, share, 2.0 + share * (1 + order)) for order in (0, 1)
            for share in (0.0, 0.4, 0.9)]  # fmt: skip
    removed = pd.DataFrame(rows, columns=["variant", "order", "share", "valid_nats"])
    assert study.rise(removed, "a", 0.5) == pytest.approx(0.4 * 1.5)
    assert study.rise(removed, "a", 0.9) == pytest.approx(0.9 * 1.5)


def test_claims_compare_what_they_say(tables: Tables) -> None:
    claims = tables["claims"].set_index("claim")["value"]
    nats = tables["quality"].set_index("variant")["test_nats"]
    assert list(claims["zhou-drop-head-helps"]) == [
        nats[f"V, {rate}"] - nats[study.NONE] for rate in (0.2, 0.1)
    ]
    rows = tables["diversity"]
    means = rows[rows["metric"] == DISSIMILARITY].groupby("variant")["value"].mean()
    expected = [
        means[f"{kind}, {rate}"] - means[study.NONE]
        for rate in (0.2, 0.1)
        for kind in (study.CONSTANT, study.V)
    ]
    assert list(claims["drop-head-redundant"]) == pytest.approx(expected)


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    found = ledger.load()
    rows = checked(found, tables["claims"].astype({"seed": str}), study.STUDY, "test")
    assert set(rows["claim"]) == {each.id for each in found.claims if each.study == study.STUDY}


def test_figures_and_the_reading_come_from_tables_alone(tables: Tables) -> None:
    before = {name: table.copy() for name, table in tables.items()}
    two_seeds = {name: pd.concat([table, table.assign(seed=1)]) for name, table in tables.items()}
    assert "over 2 seeds" in study.read(two_seeds) and "over 2" not in study.read(tables)
    for draw in (study.draw_removed, study.draw_variants):
        assert isinstance(draw(tables), Figure)
    assert "nan" not in study.read(tables)
    for name, table in before.items():
        pd.testing.assert_frame_equal(table, tables[name])
