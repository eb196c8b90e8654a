"""Study 12 against the trees it counts, counted again by other means."""

from dataclasses import replace
from itertools import pairwise

import pandas as pd
import pytest
import torch

from headbook.artefacts.texts import HELD_OUT, Text, held_out
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads import _trained_relative_positions as study
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store
from headbook.syntax.offsets import baseline_accuracy
from headbook.trees import RELATIONS, Direction, Tree

PAGE = "12_relative_positions"

SMOKE = Config(profile="smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return study.trained_here(SMOKE, store)


def tree(subject: str, verb_first: bool = False) -> Tree:
    """Three words, the second or the first a verb, with one subject beside it."""
    text = f"go {subject} now" if verb_first else f"{subject} go now"
    ends = [0, *(at + 1 for at, letter in enumerate(text) if letter == " "), len(text) + 1]
    words = tuple((start, end - 1) for start, end in pairwise(ends))
    heads, labels = ((-1, 0, 0), ("root", "nsubj", "x")) if verb_first else (
        (1, -1, 1), ("nsubj", "root", "x"))  # fmt: skip
    return Tree(text, words, heads, labels)


def counted(trees: list[Tree], corpus: str = "tatoeba-de", target: str = "de") -> study.Positions:
    text = Text(HELD_OUT, tuple(each.text for each in trees), None, tuple(trees), "gold")
    return study.positions(text, corpus, target)


def test_shares_of_a_relation_sum_to_one(tables: Tables) -> None:
    sums = tables["offsets"].groupby(["corpus", "relation"])["share"].sum()
    assert len(sums) == len(RELATIONS)
    assert sums.tolist() == pytest.approx([1.0] * len(sums))


def test_the_baseline_is_that_of_the_same_trees(tables: Tables, store: Store) -> None:
    trees = held_out(study.load("controlled-svo"), 40, "auto", store).trees
    for row in tables["baseline"].to_dict("records"):
        for direction in Direction:
            expected = baseline_accuracy(trees, trees, row["relation"], direction)
            assert row["share"] == pytest.approx(expected)
        assert row["low"] <= row["share"] <= row["high"]


def test_offsets_count_the_arcs(tables: Tables) -> None:
    counts = tables["offsets"].groupby("relation")["count"].sum()
    arcs = tables["baseline"].set_index("relation")["arcs"]
    assert counts.to_dict() == arcs.to_dict()


def test_no_model_is_trained(tables: Tables, store: Store) -> None:
    assert not (store.root / "model").exists()


def test_the_ranges_are_the_ledgers() -> None:
    known = ledger.load()
    drawn = {name: known.claim(f"voita-f3-{name}").paper[0].values for name in RELATIONS}
    assert drawn == study.DRAWN


def test_claims_are_valid_and_each_is_made_once_a_corpus(tables: Tables) -> None:
    rows = checked(ledger.load(), tables["claims"], PAGE, "smoke")
    assert set(rows["claim"]) == {
        *(f"voita-f3-{name}" for name in RELATIONS),
        "voita-f3-amod-most-predictable",
    }
    shares = tables["baseline"].set_index("relation")["in_range"]
    values = rows.set_index("claim")["value"]
    assert values["voita-f3-dobj"] == pytest.approx(shares["dobj"])


def test_a_corpus_of_several_models_is_counted_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = SMOKE.models()
    monkeypatch.setattr(Config, "models", lambda config: (run, run.with_seed(1)))
    found = list(study._texts(replace(SMOKE, sentences=5), store))
    assert [each.corpus for each in found] == ["controlled-svo"]
    assert len(found[0].text.trees) == 5


def test_shares_and_intervals_of_counted_sentences() -> None:
    of = counted([tree("I")] * 30 + [tree("dogs", verb_first=True)] * 10)
    assert of.most_frequent("nsubj") == -1
    shares = of.at_most_frequent("nsubj")
    assert float(shares[0]) == 0.75
    plain = of.weights[:30].sum(0) / of.weights.sum(0)
    assert torch.allclose(shares, plain)
    assert float(of.within("nsubj", 1, 1)[0]) == 0.25


def test_persons_are_told_by_their_form() -> None:
    of = counted([tree("We"), tree("i"), tree("you"), tree("dogs")])
    shares = {name: float(of.persons(name)[0]) for name in ("first", "second", "third")}
    assert shares == {"first": 0.5, "second": 0.25, "third": 0.25}


def test_a_relation_without_an_arc_has_no_number() -> None:
    rows = pd.DataFrame(study._baseline_rows(counted([tree("I")]))).set_index("relation")
    assert rows.loc["amod", "arcs"] == 0
    assert rows.loc[["dobj", "amod", "advmod"], "share"].isna().all()
    assert rows.loc["nsubj", "share"] == 1


def test_the_person_claim_pairs_a_short_corpus_with_the_long_one_of_its_target() -> None:
    short = counted([tree("I")] * 3 + [tree("dogs")])
    other = counted([tree("dogs")] * 4, "msdocs-ru", "ru")
    same = counted([tree("you")] + [tree("dogs")] * 3, "msdocs-de", "de")
    (row,) = study._person_claims([short, other, same])
    assert row["model"] == "tatoeba-de minus msdocs-de"
    assert (row["corpus"], row["value"]) == ("tatoeba-de", 0.5)
    (row,) = study._person_claims([short, other])
    assert row["model"] == "tatoeba-de minus msdocs-ru"
    assert not list(study._person_claims([short]))


def test_resamples_of_two_texts_are_independent() -> None:
    one, two = counted([tree("I")] * 50), counted([tree("I")] * 50, "msdocs-ru", "ru")
    assert not torch.equal(one.weights, two.weights)


def test_computing_again_gives_the_same_tables(tables: Tables, store: Store) -> None:
    for name, table in study.trained_here(SMOKE, store).items():
        pd.testing.assert_frame_equal(table, tables[name])
