"""The rare-word study on the controlled corpus, at the size of the smoke profile."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pandas as pd
import pytest

from headbook.chapters import config as configs
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES
from headbook.chapters.specialised_heads import _trained_rare_word_head as study
from headbook.chapters.specialised_heads._rare_rivals import GROUPS
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.runs.store import Store

PAGE = "14_rare_word_head"

CONFIG = Config("smoke", corpus="controlled-svo")
VOCABULARY = 2_000
"""Enough for pieces outside the 500 most frequent, which the profile's 300 do not have."""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    profile = PROFILES["smoke"]
    models = tuple(replace(model, vocabulary=VOCABULARY) for model in profile.models)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configs, "PROFILES", {"smoke": replace(profile, models=models)})
        yield Store.default()


@pytest.fixture(scope="module")
def tables(store: Store) -> Tables:
    return study.trained_here(CONFIG, store)


def test_the_kept_sentences_are_those_with_a_token_outside_the_most_frequent(
    store: Store, tables: Tables
) -> None:
    measurement = next(iter(study.measurements(CONFIG, store)))
    trained = measurement.trained
    train = trained.source.encode(trained.corpus.train.source)
    counts = Counter(piece for source in train for piece in source)
    top = sorted(counts, key=lambda piece: (-counts[piece], piece))[: study.OUTSIDE_TOP]
    sources = trained.source.encode(measurement.text.sentences)
    kept = [source for source in sources if set(source) - set(top)]
    row = tables["kept"].iloc[0]
    assert (row["kept"], row["sentences"]) == (len(kept), len(sources))
    assert 0 < len(kept) < len(sources)


def test_chance_for_the_two_rarest_is_twice_that_for_the_rarest_or_more(tables: Tables) -> None:
    chosen = tables["chosen"].query("scope == 'every layer'")
    wide = chosen.pivot(index=["unit", "update"], columns="pointing", values="chance")
    assert (wide["one of two rarest"] >= 1.9 * wide["rarest"]).all()


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    claims = checked(ledger.load(), tables["claims"].astype({"seed": str}), PAGE, "test")
    mine = {claim.id for claim in ledger.load().claims if claim.study == PAGE}
    assert set(claims["claim"]) == mine
    chosen = tables["chosen"].query(
        "unit == 'query' and update == 'best' and scope == 'first layer'"
    )
    for claim, pointing in (("rarest", "rarest"), ("two-rarest-short", "one of two rarest")):
        row = claims.set_index("claim").loc[f"voita-f5-{claim}"]
        expected = chosen.set_index("pointing").loc[pointing]
        assert row["value"] == expected["value"]
        assert row["baseline"] == expected["chance"]
        assert row["low"] <= row["high"]


def test_the_claimed_layer_is_that_of_the_largest_share(store: Store, tables: Tables) -> None:
    measurement = next(iter(study.measurements(CONFIG, store)))
    of_layers = measurement.sums["rare"].ratio()[..., 1].amax(-1)
    row = tables["claims"].set_index("claim").loc["voita-f5-first-layer"]
    assert row["value"] == int(of_layers.argmax()) + 1


def test_rivals_have_a_row_for_every_group(tables: Tables) -> None:
    rivals = tables["rivals"]
    assert [*zip(rivals["by"], rivals["group"], strict=True)] == list(GROUPS)
    queries = rivals.groupby("by")["queries"].sum()
    assert queries.nunique() == 1


def test_computing_twice_gives_equal_tables(store: Store, tables: Tables) -> None:
    again = study.trained_here(CONFIG, store)
    for name, table in tables.items():
        pd.testing.assert_frame_equal(table, again[name])


def test_no_table_holds_a_sentence(store: Store, tables: Tables) -> None:
    sentences = next(iter(study.measurements(CONFIG, store))).text.sentences
    written = "".join(table.to_csv() for table in tables.values())
    assert not [sentence for sentence in sentences if sentence in written]
