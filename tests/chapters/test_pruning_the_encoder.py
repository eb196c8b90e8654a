"""Page 18: tests over heads by hand, controls and claims of made-up trainings, stored ones."""

import itertools
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts import distilled
from headbook.artefacts.distilled import DistilledRun
from headbook.artefacts.released_pruned import (
    RELEASED_PRUNED,
    Choice,
    ReleasedPruned,
    ReleasedPruning,
)
from headbook.chapters.results import published
from headbook.chapters.specialised_heads import _pruning_views as views
from headbook.chapters.specialised_heads import _sweep
from headbook.chapters.specialised_heads import pruning_the_encoder as page
from headbook.chapters.specialised_heads._kept import (
    claims_of,
    permutation_p,
    rivals,
    survival_tests,
    trained_enough,
)
from headbook.chapters.specialised_heads._sweep import (
    FROZEN,
    GATES,
    IMPORTANCE,
    LONGER,
    PENALTIES,
    RANDOM,
    UPDATES,
    WHOLE,
    Point,
    Sweep,
    kept_heads,
    results,
    training,
)
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import load as ledger
from headbook.claims.scorecard import checked
from headbook.claims.verdict import COLUMNS, OPTIONAL
from headbook.looking.load import load
from headbook.runs.canonical import digest
from headbook.runs.store import Ingredients, Store
from headbook.training.paired import corpus_bleu
from headbook.types import HeadId, Kind, UserError

HEADS = tuple(HeadId(Kind.ENCODER, layer, head) for layer in range(3) for head in range(4))
WITH_ROLE = (HEADS[8], HEADS[9])
"""Both in the last layer."""
SENTENCES = 60


def finished(closed: tuple[HeadId, ...], statistics: np.ndarray) -> ReleasedPruned:
    """A finished training that nobody ran."""
    made = ReleasedPruned(Ingredients(RELEASED_PRUNED, {}, {}, {}), Path("nowhere"))
    shut = [(str(head.kind), head.layer, head.head) for head in closed]
    notes = {"closed": shut, "gates": [], "loss": 1.0, "statistics": statistics.tolist()}
    vars(made).update(_notes=notes, curve=pd.DataFrame({"saturated_share": [0.5, 1.0]}))
    return made


def counts(wrong: float) -> np.ndarray:
    """Sentences of which every other has so many words wrong."""
    length = np.random.default_rng(0).integers(15, 25, SENTENCES)
    right = np.maximum(length - 4 - round(wrong) * (np.arange(SENTENCES) % 2), 0)
    orders = np.arange(4)
    correct, total = np.maximum(right[:, None] - 2 * orders, 0), length[:, None] - orders
    return np.concatenate([length[:, None], length[:, None], correct, total], axis=1)


def point(
    way: str, left: tuple[HeadId, ...], wrong: float, penalty: float = 0.1, seed: int = 0,
    draw: int = 0, updates: int = UPDATES,
) -> Point:  # fmt: skip
    closed = tuple(head for head in HEADS if head not in left)
    return Point(way, penalty, seed, draw, finished(closed, counts(wrong)), HEADS, updates)


def sweep(seed: int = 0) -> list[Point]:
    """Gates that keep the heads with a role to the last, at growing cost."""
    return [
        point(WHOLE, HEADS, 0, 0.0, seed),
        point(GATES, HEADS[4:], 0, 0.1, seed),
        point(GATES, HEADS[7:], 2, 0.2, seed),
        point(GATES, WITH_ROLE, 6, 0.3, seed),
    ]


def before() -> pd.DataFrame:
    rows = [
        {"layer": head.layer + 1, "head": head.head + 1,
         "role": "syntactic" if head in WITH_ROLE else "none",
         "nearness": 2.0 if head in WITH_ROLE else 0.1 * head.head}
        for head in reversed(HEADS)  # whatever the order of the rows
    ]  # fmt: skip
    return pd.DataFrame(rows)


# ------------------------------------------------------------------ tests over heads


def test_the_permutation_test_is_that_of_every_labelling() -> None:
    shares = np.array([0.9, 0.8, 0.1, 0.2, 0.3, 0.7])
    label = np.array([1, 1, 0, 0, 0, 0], dtype=bool)
    sums = [shares[list(pair)].sum() for pair in itertools.combinations(range(6), 2)]
    exact = np.mean(np.array(sums) >= shares[label].sum())
    assert permutation_p(shares, label, np.zeros(6)) == pytest.approx(exact, abs=0.01)


def test_within_layers_only_the_layer_s_own_heads_are_compared() -> None:
    shares = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.9])
    label = np.array([0, 0, 0, 0, 1, 0], dtype=bool)
    layers = np.array([1, 1, 1, 1, 2, 2])
    assert permutation_p(shares, label, np.zeros(6)) == pytest.approx(1 / 6, abs=0.01)
    assert permutation_p(shares, label, layers) == pytest.approx(1 / 2, abs=0.01)


def test_without_or_with_only_labelled_heads_there_is_no_test() -> None:
    shares = np.array([0.1, 0.2])
    for label in ([False, False], [True, True]):
        assert np.isnan(permutation_p(shares, np.array(label), np.zeros(2)))


def test_a_training_s_test_counts_the_choices_that_keep_as_many() -> None:
    rows = survival_tests(kept_heads(sweep()), before()).set_index("penalty")
    assert rows.loc[0.3, "p"] == pytest.approx(1 / comb(12, 2))
    assert rows.loc[0.2, "p"] == pytest.approx(comb(5, 2) / comb(12, 2))
    assert (rows.loc[[0.1, 0.2, 0.3], "p_holm"] >= rows.loc[[0.1, 0.2, 0.3], "p"]).all()
    overall = survival_tests(kept_heads(sweep()), before()).set_index("test").loc["all"]
    assert overall["with_role"] == 1 and overall["without"] == pytest.approx((6 + 3 + 0) / 30)


def test_heads_that_are_closed_first_are_not_kept_more_often() -> None:
    spoilt = [point(GATES, HEADS[:4], 0), point(GATES, HEADS[:2], 0, 0.2)]
    rows = survival_tests(kept_heads(spoilt), before()).set_index("test")
    assert rows.loc["all", "with_role"] == 0 and rows.loc["all", "p"] == 1


# ------------------------------------------------------------------ controls and claims


def test_controls_stand_beside_the_gates_of_their_penalty_and_seed() -> None:
    points = [*sweep(), point(RANDOM, HEADS[:5], 4, 0.2), point(RANDOM, HEADS[1:6], 3, 0.2, draw=1),
              point(FROZEN, HEADS[2:], 8, 0.2), point(RANDOM, HEADS[:5], 4, 0.7)]  # fmt: skip
    rows = rivals(points)
    assert rows["way"].tolist() == [RANDOM, RANDOM, FROZEN]  # λ = 0.7 has no gates beside it
    assert rows["kept"].tolist() == [5, 5, 5] and rows["kept_beside"].tolist() == [5, 5, 10]
    assert rows["gap"].iloc[0] == pytest.approx(corpus_bleu(counts(2)) - corpus_bleu(counts(4)))
    assert (rows["p_holm"] >= rows["p"]).all() and (rows["low"] > 0).all()
    assert rivals(sweep()).empty


def test_claims_are_of_the_ledger_and_of_the_longest_sweeps() -> None:
    points = [*sweep(0), *sweep(1)[:3], point(RANDOM, HEADS[:5], 4, 0.2)]
    of = {"model": "m", "target": "pt"}
    found = pd.DataFrame(list(claims_of(points, before(), of, "none")))
    rows = checked(ledger(), found[[*COLUMNS, *OPTIONAL]], "18_pruning_the_encoder", "claims")
    assert set(rows["seed"]) == {"0"}
    rows = rows.set_index("claim")
    assert rows.loc["voita-f8-specialised-last", "value"] == pytest.approx(1 - 9 / 30)
    assert rows.loc["voita-f8-specialised-last", "closed"] == "none"
    half = corpus_bleu(counts(2)) - corpus_bleu(counts(0))  # five of twelve heads left
    assert rows.loc["voita-f7-half", "value"] == pytest.approx(half)
    fifth = corpus_bleu(counts(6)) - corpus_bleu(counts(0))
    assert rows.loc["voita-f7-four-fifths", "value"] == pytest.approx(fifth)
    gap = corpus_bleu(counts(2)) - corpus_bleu(counts(4))
    assert rows.loc["voita-s6-choice-matters", "value"] == pytest.approx(gap)
    whole = [*sweep(0), *sweep(1), point(RANDOM, HEADS[:5], 4, 0.2, seed=1, draw=1)]
    both = pd.DataFrame(list(claims_of(whole, before(), of, "shut")))
    assert set(both["seed"]) == {"0", "1"}
    chosen = both.query("claim == 'voita-s6-choice-matters'")
    assert chosen["seed"].tolist() == ["1"]  # beside random heads of its own seed
    assert chosen["value"].tolist() == [pytest.approx(gap)]
    assert chosen["closed"].tolist() == ["shut"]


@pytest.mark.parametrize(("wrong", "closed"), [(2, False), (9, True)])
def test_pruned_models_count_where_more_updates_hardly_move_them(wrong: int, closed: bool) -> None:
    short = sweep()
    assert trained_enough(results(short)).startswith("converged: ")
    longer = point(GATES, HEADS[7:], wrong, 0.2, updates=LONGER)
    assert (trained_enough(results([*short, longer])) != "none") is closed
    assert len(rivals([*short, longer, point(RANDOM, HEADS[:5], 4, 0.2)])) == 1


def test_results_compare_with_the_whole_model_of_the_same_seed_and_length() -> None:
    points = [*sweep(0), *sweep(1)[1:], point(WHOLE, HEADS, 3, 0.0, updates=LONGER)]
    rows = results(points)
    mine = rows.query("seed == 0 and way == @GATES").set_index("penalty")
    assert mine.loc[0.1, "difference"] == 0 and mine.loc[0.3, "difference_high"] < 0
    assert rows.query("seed == 1")["difference"].isna().all()  # its whole model is not there
    assert rows.loc[rows["way"] == GATES, "saturated"].eq(1).all()
    heads, of = kept_heads(points), ["way", "penalty", "seed", "updates"]
    assert heads.groupby(of)["kept"].sum().to_dict() == rows.set_index(of)["kept"].to_dict()


# ------------------------------------------------------------------ the sweep and the store


def test_trainings_of_other_models_and_kinds_leave_the_sentences_as_they_are() -> None:
    """Only their own counts move; a second seed counts, and the first one's rows stay."""
    tables = published("18_pruning_the_encoder", RELEASED).tables
    more = dict(tables)
    for name in ("released", "kept", "rivals", "tests", "trainings"):
        table = tables[name].query("gated == 'encoder'")
        others = [table.assign(model="firefox-pt-en"), table.assign(gated="cross")]
        for other in others:
            other[other.select_dtypes(float).columns] = 0.5
        more[name] = pd.concat([tables[name], *others], ignore_index=True)
    before, after = page.facts(tables), page.facts(more)
    moved = {name for name in before if before[name] != after[name]}
    assert {name.partition("_")[0] for name in moved} == {"cross"}
    assert len(views.rivals_table(more)) == len(views.rivals_table(tables))
    assert len(views.tests_table(more)) == len(views.tests_table(tables))

    again = tables["released"].assign(seed=9)
    seeded = page.facts(tables | {"released": pd.concat([tables["released"], again])})
    assert int(seeded["seeds"]) == int(before["seeds"]) + 1
    assert seeded["some_bleu"] == before["some_bleu"]
    stored = views.of_first(tables["trainings"]).query("way != @page.MISSING")
    assert before["stored"] == str(stored["trainings"].sum())


def test_seeds_agree_by_the_heads_that_another_keeps_too() -> None:
    """Of seed 0's two heads seed 1 keeps one, of its three one: (1/2 + 1/3) / 2."""
    points = [point(GATES, HEADS[:2], 0), point(GATES, HEADS[1:4], 0, seed=1)]
    kept = kept_heads(points).assign(model="m", gated="encoder")
    (found,) = views.agreement({"kept": kept}).to_dict("records")
    assert found["same"] == pytest.approx(5 / 12)
    assert found["chance"] == pytest.approx((3 / 12 + 2 / 12) / 2)
    assert found["left"] == "2 to 3"
    assert views.agreement({"kept": kept.query("seed == 0")}).empty


def test_trainings_are_filed_as_the_first_ones_were() -> None:
    """Hours of trainings are stored under these configurations."""
    gates = ReleasedPruning(Choice.GATES, training(0), penalty=0.015)
    fixed = ReleasedPruning(Choice.FIXED, training(1))
    assert (digest(gates)[:12], digest(fixed)[:12]) == ("3a7e9c0b6db7", "989e8c95facd")


@pytest.fixture
def trained_here(monkeypatch: pytest.MonkeyPatch, tmp_path) -> list[ReleasedPruning]:
    """A store that has gates of seed 0 and the whole model; what is trained beyond is listed."""
    asked: list[ReleasedPruning] = []
    known = {("gates", each) for each in PENALTIES} | {("fixed", 0.0)}

    def key(text: object, run: ReleasedPruning) -> ReleasedPruning:
        return run

    def has(self: Store, run: ReleasedPruning) -> bool:
        plain = run.training == training(0) and not run.frozen and not run.closed
        return plain and (str(run.choice), run.penalty) in known

    def made(model: object, text: object, run: ReleasedPruning, store: Store) -> ReleasedPruned:
        asked.append(run)
        return finished(run.closed or HEADS[:5], counts(0))

    monkeypatch.setattr(_sweep, "asked_for", key)
    monkeypatch.setattr(_sweep, "released_pruned", made)
    monkeypatch.setattr(Store, "has", has)
    monkeypatch.setattr(Sweep, "text", None)
    monkeypatch.setattr(Sweep, "heads", HEADS)
    monkeypatch.setattr(Sweep, "_by_importance", HEADS)
    return asked


def test_stored_reads_and_trains_nothing(trained_here, tmp_path) -> None:
    sweep = Sweep("firefox-en-pt", Store(tmp_path), train=False)
    points = list(sweep.points())
    assert [each.way for each in points] == [WHOLE, *[GATES] * len(PENALTIES)]
    assert all(Store(tmp_path).has(run) for run in trained_here)
    everything = Sweep("firefox-en-pt", Store(tmp_path))
    assert [label(each) for each in everything.points()] == list(sweep.plan)


def test_the_plan_has_three_seeds_controls_and_a_fifth_more_updates() -> None:
    plan = Sweep("firefox-en-pt", Store(Path("nowhere"))).plan
    plan = pd.DataFrame(list(plan), columns=["way", "penalty", "seed", "draw", "updates"])
    gates = plan[(plan["way"] == GATES) & (plan["updates"] == UPDATES)]
    assert gates.groupby("seed")["penalty"].apply(set).tolist() == [set(PENALTIES)] * 3
    random = plan[(plan["way"] == RANDOM) & (plan["updates"] == UPDATES)]
    assert random.groupby("penalty")["draw"].apply(list).tolist() == [[0, 1, 2]] * 2
    assert set(plan[plan["updates"] == LONGER]["way"]) == {WHOLE, GATES, RANDOM}
    assert {FROZEN, IMPORTANCE} < set(plan["way"])


def label(each: Point) -> tuple:
    return each.way, each.penalty, each.seed, each.draw, each.updates


def test_trainings_that_the_store_lacks_keep_their_published_rows() -> None:
    labels = {"model": "firefox-en-pt", "gated": "encoder"}
    known = published("18_pruning_the_encoder", RELEASED).tables["released"]
    known = known.query("model == 'firefox-en-pt' and gated == 'encoder'").reset_index(drop=True)
    keys = ["way", "penalty", "seed", "draw", "updates"]
    again = known.query("way == @GATES and penalty == 0.06").head(1).assign(bleu=99.0)
    another = again.assign(seed=9, bleu=98.0)
    new = pd.concat([another, again])
    found = page._with_published("released", new, labels).set_index(keys)
    assert not found.index.duplicated().any()
    assert found["bleu"].head(2).tolist() == [98.0, 99.0]
    others = known.set_index(keys).drop(again.set_index(keys).index)
    pd.testing.assert_frame_equal(found.iloc[2:], others)
    nothing = page._with_published("released", new.head(0), labels)
    pd.testing.assert_frame_equal(nothing, known)
    pd.testing.assert_frame_equal(page._with_published("unknown", again, labels), again)


def test_what_the_plan_has_and_nobody_ran_is_counted() -> None:
    sweep = Sweep("firefox-en-pt", Store(Path("nowhere")))
    known = published("18_pruning_the_encoder", RELEASED).tables["released"]
    known = known.query("model == 'firefox-en-pt' and gated == 'encoder'")
    counts = page._counts(sweep, known.iloc[1:]).set_index("way")["trainings"]
    assert counts.sum() == len(sweep.plan)
    assert counts[page.MISSING] == len(sweep.plan) - len(known) + 1
    assert page._counts(sweep, known.head(0))["trainings"].tolist() == [len(sweep.plan)]


def test_controls_close_as_many_heads_and_the_whole_model_none(trained_here, tmp_path) -> None:
    points = list(Sweep("firefox-en-pt", Store(tmp_path)).points())
    for each in points:
        if each.way == RANDOM:
            assert len(each.made.closed) == 5 and each.kept == len(HEADS) - 5
    fixed = [run for run in trained_here if run.choice is Choice.FIXED]
    assert {len(run.closed) for run in fixed} == {0, 5}
    assert {run.training.updates for run in trained_here} == {UPDATES, LONGER}


def test_gates_on_cross_attention_are_other_trainings(trained_here, tmp_path) -> None:
    list(Sweep("firefox-en-pt", Store(tmp_path), Kind.CROSS).points())
    gates = [run for run in trained_here if run.choice is Choice.GATES]
    assert {run.kinds for run in gates} == {(Kind.CROSS,)}


def test_a_portuguese_student_reads_the_translations_of_the_english_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    english = DistilledRun((("own", 2),))
    monkeypatch.setattr(distilled, "_sentences", lambda name: ["The cat sleeps.", "It rains now."])
    monkeypatch.setattr(_sweep, "ENGLISH", english)
    monkeypatch.setattr(
        _sweep, "TEXTS", {"en": english, "pt": DistilledRun((("firefox-en-pt", 9),))}
    )
    store = Store(tmp_path)
    assert list(Sweep("firefox-pt-en", store, train=False).points()) == []
    sweep = Sweep("firefox-pt-en", store)
    expected = load("firefox-en-pt").translate(["The cat sleeps.", "It rains now."])
    (batch,) = sweep.model().batches(expected)
    sources = {tuple(row[real].tolist())
               for row, real in zip(batch.source, batch.source_mask, strict=True)}  # fmt: skip
    assert {tuple(source) for source, _ in sweep.text.pairs} == sources


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trained": "some"}, "none, stored or all"),
        ({"models": ("minilm",)}, "minilm cannot be pruned"),
        ({"kinds": ("decoder",)}, "give encoder or cross"),
    ],
)
def test_what_cannot_be_pruned_is_said_in_one_line(change: dict, said: str, tmp_path) -> None:
    with pytest.raises(UserError, match=said):
        page.compute(page.Parameters(**change), Store(tmp_path))
