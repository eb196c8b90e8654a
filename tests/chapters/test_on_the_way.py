"""A long training, of planted snapshots whose moments are known beforehand."""

import pandas as pd
import pytest
import torch

from headbook.artefacts import catalogue
from headbook.artefacts.model import trained
from headbook.chapters.sixteen import _on_the_way as long
from headbook.chapters.sixteen import _order_of_roles as order
from headbook.chapters.sixteen import _three_seeds as three_seeds
from headbook.chapters.sixteen._on_the_way import MASKED, TRANSLATION, Moment, Translating, Way
from headbook.heads.measure import RatioSums
from headbook.runs.store import Store
from headbook.training.scoring import Casing, bleu, chrf, translate_corpus
from headbook.trees import RELATION_DIRECTIONS

UPDATES = (0, 64, 91, 128)
OWN, NEIGHBOUR = (0.1, 0.3, 0.4, 0.5), (0.05, 0.1, 0.35, 0.6)
NATS = (9.0, 7.0, 6.0, 5.0)
REPLICATES = 4


def planted(cells: dict[int, float], *shape: int) -> RatioSums:
    """These shares in these cells, every replicate a hundredth less."""
    numerator = torch.zeros(2, 1 + REPLICATES, *shape, dtype=torch.float64)
    for cell, share in cells.items():
        numerator.flatten(2)[..., cell] = share - 0.01 * torch.arange(1 + REPLICATES)
    return RatioSums(numerator, torch.ones_like(numerator))


def moment(name: str, number: int, text: str, less: float = 0.0) -> Moment:
    """Head 1 of layer 1 looks one token to the right, head 2 at its own token."""
    sums = {
        "positional/encoder": planted({6: NEIGHBOUR[number] - less, 11 + 5: OWN[number]}, 2, 2, 11),
        "rare": planted({1: 0.2}, 2, 2, 2),
        "confidence/encoder": planted({3: 0.9}, 2, 2),
    }
    if text != "held-out":
        sums |= {"syntactic": planted({2: 0.7}, 2, 2, 8),
                 "offsets": RatioSums(*[torch.full((2, 1 + REPLICATES, 3, 8), each)
                                        for each in (0.5, 1.0)])}  # fmt: skip
    objective = "hidden words" if name == MASKED else "translation"
    return Moment(name, objective, UPDATES[number], text, 10, sums, NATS[number])


def way(name: str, until: int = 4, less: float = 0.0) -> Way:
    own, gold = (
        tuple(moment(name, number, text, less) for number in range(until))
        for text in ("held-out", long.SAMPLE)
    )
    return Way(name, own, gold)


def test_a_share_is_there_when_it_is_half_of_its_last():
    own = pd.DataFrame({"neighbour": NEIGHBOUR}).assign(
        neighbour_low=lambda f: f["neighbour"] - 0.06, neighbour_high=lambda f: f["neighbour"] + 0.2
    )
    # .35 is half of .6; .3 half of .54 at best, and .29 not half of .8 at worst
    assert [UPDATES[at] for at in order.halfway(own, long.Score.NEIGHBOUR)] == [91, 64, 128]


def test_claims_say_when_each_came():
    rows = {row["claim"]: row for row in order.claims(long.rows([way(MASKED)]))}
    assert rows[order.BEFORE]["value"] == pytest.approx(0.75)
    first = rows[order.FIRST]
    assert first["value"] == 1 and first["low"] <= 1 <= first["high"]


def test_a_training_may_have_gone_on_elsewhere():
    """Its first snapshots are published rows; the planted fault: the last ones alone."""
    rows = long.rows([way(MASKED)])
    shuffled = pd.concat([rows[rows["update"] > 64], rows[rows["update"] <= 64]])
    claims = [list(order.claims(each)) for each in (rows, shuffled, rows[rows["update"] > 64])]
    assert claims[0] == claims[1] != claims[2]
    assert not list(order.claims(long.rows([way(TRANSLATION)])))


def test_masking_and_translation_are_compared_at_the_last_update_that_both_have():
    """Of published rows: the difference of .1 with squares of both distances added."""
    rows = long.rows([way(MASKED), way(TRANSLATION, until=3, less=0.1)])
    (row,) = order.sooner(rows)
    assert row["claim"] == order.SOONER and row["model"] == MASKED
    assert row["value"] == pytest.approx(0.1), "after 91 updates"
    assert row["low"] < 0.1 <= row["high"]
    narrow = rows.assign(neighbour_low=rows["neighbour"], neighbour_high=rows["neighbour"])
    (row,) = order.sooner(narrow)
    assert row["low"] == row["value"] == row["high"]


def test_without_a_second_training_or_a_common_update_nothing_is_compared():
    assert {row["claim"] for row in order.claims(long.rows([way(MASKED)]))} == {
        order.BEFORE,
        order.FIRST,
    }
    assert not list(order.sooner(long.rows([way(MASKED)])))
    assert not list(order.sooner(long.rows([way(MASKED), way(TRANSLATION, until=1)])))


def test_rows_name_head_offset_and_relation():
    rows = long.rows([way(MASKED)])
    assert len(rows) == 8
    last = rows[rows["text"] == long.SAMPLE].iloc[-1]
    assert (last["neighbour_layer"], last["neighbour_head"], last["neighbour_offset"]) == (1, 1, 1)
    assert (last["own_layer"], last["own_head"]) == (1, 2) and last["own"] == pytest.approx(0.5)
    assert last["syntactic"] == pytest.approx(0.2)
    relation, direction = RELATION_DIRECTIONS[2]
    assert last["relation"] == f"{relation}, {direction}"
    assert rows[rows["text"] == "held-out"]["syntactic"].isna().all()


def test_every_snapshot_keeps_its_own_neighbour_wherever_its_row_stands():
    rows = long.rows([way(TRANSLATION, 2, less=0.03), way(MASKED)])
    gold = rows["text"] == long.SAMPLE
    mixed = pd.concat([rows[~gold], rows[gold][::-1]])
    shown = long.moments(mixed).set_index(["training", "update"])
    assert [*shown.index] == [
        *(("hidden words", str(update)) for update in UPDATES),
        *(("small batches", str(update)) for update in UPDATES[:2]),
    ]
    neighbours = shown["neighbour"].str.replace("\u00a0", " ")
    expected = [f"{100 * each:.0f} % (+1, L1H1)" for each in NEIGHBOUR]
    assert neighbours["hidden words"].tolist() == expected
    assert neighbours["small batches"].tolist() == ["2 % (+1, L1H1)", "7 % (+1, L1H1)"]
    nats = [f"{each:.2f}" for each in NATS]
    assert shown["nats"].tolist() == [*nats, *nats[:2]]


def test_the_figure_holds_every_score_and_the_far_end():
    rows = long.rows([way(MASKED)])
    drawn = long.through(rows, MASKED)
    assert set(drawn["looks at"]) == set(long.SCORES.values()) and set(drawn["update"]) == {
        *UPDATES
    }
    ends = rows[rows["text"] == long.SAMPLE].tail(1).assign(model=long.STUDENT)
    marks = long.far_end(ends, 256).set_index("looks at")
    assert marks.loc["a neighbour", "value"] == pytest.approx(0.6) and set(marks["update"]) == {256}


def test_relevance_is_over_an_even_part_and_of_the_head_at_a_neighbour():
    """Two layers of four heads; the head at a neighbour is the first of the first layer."""
    parts = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.1, 0.7, 0.1, 0.1]]).expand(5, 2, 4)
    neighbour = moment(TRANSLATION, 3, "held-out").sharpest(long.Score.NEIGHBOUR)
    row = Translating({"bleu": 30.0}, parts).columns(neighbour)
    assert row["bleu"] == 30
    assert row["relevance"] == pytest.approx((2 + 2.8) / 2)
    assert row["neighbour_relevance"] == row["neighbour_relevance_low"] == pytest.approx(2)


def test_a_translation_model_is_scored_and_explained_at_every_snapshot():
    name, store = "controlled-sov-16", Store.default()
    made = trained(catalogue.run(name), store)
    rows = long.rows([long.way(name, store, sentences=8)]).set_index(["text", "update"])
    own, gold = rows.loc["held-out"], rows.loc[long.SAMPLE]
    assert list(own.index) == [0, *made.snapshots] and gold["bleu"].isna().all()
    last = max(made.snapshots)
    pairs = next(iter(made.corpus.tests.values())).first(8)
    encoded = made.source.encode(pairs.source)
    said = translate_corpus(made.model(last), encoded, made.target, made.run.search)
    for score in (bleu, chrf):
        found = score(said, pairs.target, Casing.CASED)
        row = own.loc[last, [score.__name__, f"{score.__name__}_signature"]]
        assert list(row) == [pytest.approx(found.score), found.signature]
    assert (own["relevance"] >= 1).all() and own["neighbour_relevance"].between(0, 2).all()


def test_a_masked_language_model_translates_nothing():
    """And its rows can be added to those of models that do."""
    assert "bleu" not in moment(MASKED, 3, "held-out").row()
    rows = long.rows([way(MASKED)])
    assert rows[long.TRANSLATED].isna().all().all()


def test_every_pair_is_compared_with_itself():
    """Two seeds a tenth apart: the planted fault is a pair across seeds."""
    pairs = list(zip(*order.SEEDS, strict=True))
    rows = long.rows(
        [
            each
            for number, (masked, translating) in enumerate(pairs)
            for each in (way(masked), way(translating, less=0.1 + 0.05 * number))
        ]
    )
    claims = pd.DataFrame(order.of_pairs(rows)).query("claim == @order.SOONER")
    assert list(claims["value"]) == pytest.approx([0.1, 0.15, 0.2])
    assert list(claims["seed"]) == [0, 1, 2] and claims["model"].nunique() == 1


def test_seeds_are_told_by_their_mean_and_ends():
    names = [*order.SEEDS[0], *order.SEEDS[1]]
    rows = long.rows([way(name, less=0.02 * number) for number, name in enumerate(names)])
    rows["objective"] = rows["model"].str.contains("masked").map({True: "a", False: "b"})
    found = three_seeds.through(rows).set_index(["training", "looks at", "update"])
    assert list(found.loc[("a", "a neighbour", 128)]) == pytest.approx([0.58, 0.56, 0.6])
    table = three_seeds.at_their_end(rows)
    assert list(table["neighbour"].iloc[[0, 5]]) == [
        "60\N{NO-BREAK SPACE}% (+1, L1H1)",
        "50\N{NO-BREAK SPACE}% (+1, L1H1)",
    ]
    assert list(table["half of that after"]) == ["91"] * 5 + ["91"]
    facts = three_seeds.facts({"ways": rows})
    assert facts["seeds_masked_neighbour"] == "56 to 60\N{NO-BREAK SPACE}%"
