"""Page 19 at profile smoke, and its lines where the order of heads is planted."""

import pandas as pd
import pytest

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads import pruning_everything as page
from headbook.chapters.tables import of_ours
from headbook.chapters.words import OURS
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.types import Kind


@pytest.fixture(scope="module")
def tables() -> Tables:
    return page.trained_here(Config("smoke"), Store.default())


def planted(layers: int) -> Tables:
    """Two models, each with a sweep of two points in which kinds go one after another.

    The second model's sweep ends at half of the first one's share.
    """
    rows = [
        {"model": model, "penalty": penalty, "pruned": gone * layers * 2, "pruned_of": 6 * layers,
         "kind": str(kind), "layer": layer + 1, "kept": 0 if at < gone else 2, "of": 2}
        for model, points in (("m w8 s0", ((1, 0.1), (2, 0.2))), ("m w8 s1", ((1, 0.1),)))
        for gone, penalty in points
        for at, kind in enumerate(Kind)
        for layer in range(layers)
    ]  # fmt: skip
    return {"layers": pd.DataFrame(rows)}


def test_every_claim_of_the_page_has_a_row_for_every_model(tables: Tables):
    known, name = ledger.load(), "19_pruning_everything"
    rows = checked(known, tables["claims"], name, "smoke")
    assert set(rows["claim"]) == {each.id for each in known.claims if each.study == name}
    assert not rows.duplicated(["claim", "model"]).any()


def test_no_claim_about_bleu_is_judged_by_models_that_still_learn(tables: Tables):
    closed = tables["claims"].set_index("claim")["closed"]
    of_order = list(page.ORDERS.values())
    assert closed[of_order].isna().all()
    told = closed.drop(of_order)
    assert len(told) and told.notna().all()
    unseen = "the loss of pruned models was not validated before their last updates"
    assert set(told) == {f"converged: {unseen}"}


def test_layers_add_up_to_the_points(tables: Tables):
    points = tables["points"].query("arm == 'gates'").set_index("penalty")
    layers = tables["layers"].groupby(["penalty", "kind"])["kept"].sum().unstack()
    for kind in Kind:
        assert (layers[str(kind)] == points[f"{kind}_kept"]).all()
    assert (layers.sum(axis=1) == points["kept"]).all()


def test_lines_by_kind_start_whole_and_end_where_the_shortest_sweep_does():
    rows = page.by_kind(planted(3))
    assert rows["pruned"].max() == pytest.approx(30)  # a third, on steps of ten per cent
    left = rows.pivot(index="pruned", columns="kind", values="value")
    assert (left.loc[0] == 100).all()
    assert left["encoder"].iloc[-1] == pytest.approx(10)
    assert (left[["decoder", "cross"]] == 100).all(axis=None)
    assert (rows["low"] <= rows["value"]).all() and (rows["value"] <= rows["high"]).all()


def test_the_band_is_the_range_over_models():
    tables = planted(3)
    second = tables["layers"]["model"] == "m w8 s1"
    encoder = tables["layers"]["kind"] == "encoder"
    tables["layers"].loc[second & encoder, "kept"] = 1
    row = page.by_kind(tables).query("kind == 'encoder'").iloc[-1]
    assert [row["low"], row["value"], row["high"]] == pytest.approx([10, 32.5, 55])


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        (2, ["layer 1", "layer 2"]),
        (3, ["low layers", "middle layers", "high layers"]),
        (6, ["low layers", "middle layers", "high layers"]),
    ],
)
def test_layers_are_in_thirds_where_there_are_thirds(layers: int, names: list[str]):
    assert list(page.by_third(planted(layers), "decoder")["layers"].unique()) == names


def test_the_papers_points_add_up_to_its_counts():
    """Figure 9's points by heads pruned of 144."""
    shares = page.paper()["pruned"].unique() * 1.44
    assert shares.round(6).tolist() == [16, 41, 63, 76, 91, 108, 118]


def test_the_long_training_stands_beside_the_small_models_and_not_among_them(tables: Tables):
    claims = tables["claims"].fillna({"value": 0.25, "low": 0.1, "high": 0.4})
    points = tables["points"].copy()
    gates = points["arm"] == "gates"
    # the second point keeps 4 of 12 heads
    points.loc[gates, ["kept", "to_further", "to_further_low", "to_further_high"]] = [
        [8, -0.5, -1.0, 0.1], [4, -2.0, -3.0, -1.0],
    ]  # fmt: skip
    small = tables | {"claims": claims, "points": points}
    long = {n: each.assign(model=OURS) for n, each in small.items()}
    long["claims"] = long["claims"].assign(value=0.5)
    both = {name: pd.concat([small[name], long[name]], ignore_index=True) for name in small}
    alone, found = page.facts(small), page.facts(both)
    assert alone.items() < found.items()
    assert found["ours_half"] == "−2.0 [−3.0, −1.0]" and found["ours_half_kept"] == "4"
    assert found["ours_encoder"] == "+50 [10, 40]" and found["encoder"] == "25 points"
    assert found["ours_points"] == "2" and int(found["ours_draws"]) == len(tables["controls"]) / 2
    lines = page.by_kind(of_ours(both)).query("kind == 'encoder'")
    assert len(lines) == 1 + tables["layers"]["pruned"].nunique()  # the whole model, its points


def test_facts_and_tables_of_a_run(tables: Tables):
    # so few heads show no order: a number is planted
    claims = tables["claims"].fillna({"value": 0.25, "low": 0.1, "high": 0.4})
    tables = tables | {"claims": claims}
    found = page.facts(tables)
    assert (found["models"], found["heads"]) == ("1", "12")
    assert found["encoder_paper"] == "25 points" and found["half_paper"] == "−0.24"
    assert len(page.orders(tables)) == 1
    assert found["cross"] == "25 points" and found["cross_clear"] == "1"
    arms = tables["points"]["arm"].isin(page.ARMS)
    assert len(page.bleu(tables)) == arms.sum()
    assert len(page.controls(tables)) == tables["controls"]["penalty"].nunique()
