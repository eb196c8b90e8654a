"""Study 11: its tables, and roles where it is known beforehand who should hold them."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from headbook.artefacts.heads import (
    BATCH_TOKENS,
    DEFAULT,
    MEASURES,
    Given,
    HeadsRun,
    aligned,
    encoded,
    measured,
)
from headbook.artefacts.model import TrainedModel, corpus_of
from headbook.artefacts.texts import HELD_OUT, held_out
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement
from headbook.chapters.specialised_heads import _trained_confidence_and_roles as study
from headbook.chapters.specialised_heads._head_tables import role_rows
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.corpora.batches import Batch, in_order
from headbook.corpora.subwords import Subwords, frequency_ranks
from headbook.heads import planted
from headbook.heads.random_head import random_heads
from headbook.models.capture import Point
from headbook.runs.store import Store
from headbook.trees import RELATION_DIRECTIONS, Tree
from headbook.types import Kind

PAGE = "11_confidence_and_roles"

SMOKE = Config("smoke", corpus="controlled-svo")


@pytest.fixture(scope="module")
def tables() -> Tables:
    return study.trained_here(SMOKE, Store.default())


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    """The quick model of the controlled corpus with its subwords, before its first update."""
    folder = tmp_path_factory.mktemp("untrained")
    run = Config("quick", corpus="controlled-svo").one_model()
    corpus = corpus_of(run.corpus, run.pairs)
    for side in ("source", "target"):
        Subwords.train(getattr(corpus.train, side), run.vocabulary).save(folder / f"{side}.json")
    return TrainedModel(run, folder, corpus)


def held(measurement: Measurement) -> set[tuple[int, int, str, str]]:
    roles = role_rows(measurement)
    columns = ["layer", "head", "role", "detail"]
    return {tuple(row) for row in roles[roles["held"]][columns].values}


def answerable(trees: tuple[Tree, ...], relation: str) -> float:
    """The largest share of a relation's arcs that a head with one answer a word can get right."""
    arcs = [[arc.head for arc in tree.arcs() if arc.relation == relation] for tree in trees]
    return sum(len(set(heads)) for heads in arcs) / sum(map(len, arcs))


def test_a_planted_model_is_recovered(untrained: TrainedModel, tmp_path: Path):
    text = held_out(untrained.corpus, 150, "auto", Store(tmp_path))
    trees = aligned(untrained, text)
    ranks = frequency_ranks(
        untrained.source.encode(untrained.corpus.train.source), len(untrained.source)
    )

    def record(batch: Batch) -> dict[tuple[Kind, Point], list[torch.Tensor]]:
        drawn = random_heads(batch, Kind.ENCODER, heads=3)[Kind.ENCODER, Point.WEIGHTS][0]
        partners = [planted.at_partner(batch, trees, column) for column in range(8)]
        others = [planted.at_offset(batch, -1), planted.uniform(batch), planted.at_first(batch),
                  planted.at_offset(batch, +1), planted.at_rarest(batch, ranks)]  # fmt: skip
        return planted.recording(partners, [*others, *drawn.unbind(1)])

    given = Given(untrained, text, DEFAULT)
    measures = {name: each.make(given) for name, each in MEASURES.items()
                if not (each.random or each.needs_targets)}  # fmt: skip
    for batch in in_order(encoded(untrained, text), BATCH_TOKENS):
        for measure in measures.values():
            if measure.point is Point.WEIGHTS:
                measure.update(record(batch), batch)
    sums = {name: each.sums() for name, each in measures.items() if each.update_called}
    expected = {(2, 1, "positional", "-1"), (2, 4, "positional", "+1"),
                (2, 5, "rare", "one of two rarest")}  # fmt: skip
    for head, names in enumerate(RELATION_DIRECTIONS, start=1):
        expected.add((1, head, "syntactic", " ".join(names)))
    # A noun of two adjectives asks twice and is answered once, while the adjective is so often the
    # word before it that no head can be 10 points better.
    crowded = (1, 5, "syntactic", "amod head_to_dependent")
    measurement = Measurement(untrained, text, HeadsRun(HELD_OUT), sums)
    assert held(measurement) == expected - {crowded}
    roles = role_rows(measurement).set_index(["layer", "head", "role", "detail"])
    assert roles.loc[crowded, "score"] == pytest.approx(answerable(text.trees, "amod"))
    assert roles.loc[crowded, "threshold"] > roles.loc[crowded, "score"]


def test_an_untrained_model_has_no_role(untrained: TrainedModel, tmp_path: Path):
    store, run = Store(tmp_path), HeadsRun(HELD_OUT, 0)
    text = held_out(untrained.corpus, None, "auto", store)
    sums = measured(untrained, text, run, store)
    assert not sums["rare"].ratio().isnan().any() and not sums["syntactic"].ratio().isnan().any()
    assert held(Measurement(untrained, text, run, sums)) == set()


def test_every_head_has_its_scores_trained_and_not(tables: Tables):
    scores = tables["scores"]
    assert set(scores["update"]) == {"best", "0"} and set(scores["kind"]) == set(Kind)
    assert len(scores) == 2 * 3 * 2 * 2  # updates, kinds, layers, heads
    assert scores["confidence"].between(0, 1).all()
    encoder = scores[scores["kind"] == "encoder"]
    for name in ("confidence", "own", "neighbour", "other", "accuracy"):
        assert (encoder[f"{name}_low"] <= encoder[name]).all()
        assert (encoder[name] <= encoder[f"{name}_high"]).all()


def test_training_is_measured_at_every_snapshot(tables: Tables):
    assert tables["training"]["update"].tolist() == [0, 8, 11, 16, 20]
    assert not tables["training"].duplicated("largest_confidence").all()


def test_every_claim_of_the_study_has_a_row_a_model(tables: Tables):
    known = ledger.load()
    rows = checked(known, tables["claims"], PAGE, "smoke")
    assert set(rows["claim"]) == {each.id for each in known.claims if each.study == PAGE}
    assert not rows["claim"].duplicated().any()


def claims_of(sharp: list[float], positional: list[float], offset: int = -1) -> pd.Series:
    """The claims of one layer whose heads have these confidences and shares at an offset."""
    from headbook.heads.measure import RatioSums

    def plain(*shape: int, at: dict[tuple[int, ...], float] | None = None) -> RatioSums:
        values = torch.zeros(2, 4, 1, *shape, dtype=torch.float64)
        for cell, value in (at or {}).items():
            values[(slice(None), slice(None), 0, *cell)] = value
        return RatioSums(values, torch.ones_like(values))

    heads = len(sharp)
    sums = {
        "confidence/encoder": plain(heads, at={(n,): each for n, each in enumerate(sharp)}),
        "positional/encoder": plain(
            heads, 11, at={(n, 5 + offset): e for n, e in enumerate(positional)}
        ),
        "syntactic": plain(heads, 8), "rare": plain(heads, 2, at={(0, 1): 0.4}),
    }  # fmt: skip
    offsets = torch.full((2, 4, 41, 8), 0.5, dtype=torch.float64)
    sums["offsets"] = RatioSums(offsets, torch.ones_like(offsets))
    run = SMOKE.one_model()
    model = TrainedModel(run, Path(), corpus_of(run.corpus, run.pairs))
    text = held_out(model.corpus, 1, "auto", Store(Path()))
    rows = study._claims(Measurement(model, text, HeadsRun(HELD_OUT), sums))
    return pd.DataFrame(rows).set_index("claim")["value"]


def test_claims_of_planted_heads_are_known():
    found = claims_of(sharp=[0.3, 0.95, 0.85, 0.75], positional=[0.1, 0.99, 0.92, 0.2])
    assert found.rename(lambda name: name.removeprefix("voita-")).to_dict() == pytest.approx({
        "f1b-positional-confident": 0.85, "f1b-few-confident": 0.75,
        "f1b-confident-are-positional": 1.0, "f1b-rare-not-confident": 0.3 - 0.7125,
        "f1c-positional": 2, "f1c-positional-adjacent": 1.0, "f1c-both-neighbours": 1,
        "f1c-syntactic": 0, "f1c-rare": 0, "f1c-unclassified": 0.5,
    })  # fmt: skip


def test_the_most_confident_may_be_others():
    found = claims_of(sharp=[0.9, 0.2, 0.8, 0.1], positional=[0.0, 0.99, 0.92, 0.2])
    assert found["voita-f1b-confident-are-positional"] == 0.5
    assert found["voita-f1b-positional-confident"] == pytest.approx(0.2)


@pytest.mark.parametrize("offset", [0, 2, -2])
def test_a_head_at_its_own_token_or_two_away_has_no_role(offset: int):
    found = claims_of(sharp=[0.9, 0.95], positional=[0.2, 0.99], offset=offset)
    assert found["voita-f1c-positional"] == 0 and found["voita-f1c-unclassified"] == 1
    assert found["voita-f1c-both-neighbours"] == 0
    assert found["voita-f1c-positional-adjacent"] == 0, "it looks at one offset, and no neighbour"
    assert pd.isna(found["voita-f1b-positional-confident"])


def test_without_positional_heads_there_is_no_number():
    found = claims_of(sharp=[0.9, 0.2], positional=[0.0, 0.5])
    for name in ("f1b-positional-confident", "f1b-confident-are-positional",
                 "f1c-positional-adjacent"):  # fmt: skip
        assert pd.isna(found[f"voita-{name}"])
    assert found["voita-f1c-positional"] == 0 and found["voita-f1c-unclassified"] == 1


def test_computing_again_gives_the_same_tables(tables: Tables):
    again = study.trained_here(SMOKE, Store.default())
    assert again.keys() == tables.keys()
    for name, table in again.items():
        pd.testing.assert_frame_equal(table, tables[name])


def test_another_seed_is_another_model(tables: Tables):
    other = replace(SMOKE, seed=1)
    assert other.models() != SMOKE.models() and len(other.models()) == 1
