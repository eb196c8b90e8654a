"""Agreement of measures, of a model whose heads matter by known amounts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from headbook.artefacts import masked as ablations
from headbook.chapters import importance_scores
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.importance_scores import ABLATION, CONFIDENCE, IMPORTANCE, RANDOM, RELEVANCE
from headbook.chapters.sixteen import do_measures_agree as page
from headbook.chapters.sixteen.do_measures_agree import (
    FULL,
    HALVES,
    LEAST_RELEVANT,
    MOST_RELEVANT,
)
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.heads.measure import RatioSums
from headbook.heads.relevance_rules import Variant
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.statistics import drawn_within, interval, spearman
from headbook.types import HeadId, Kind

CONFIG = Config("smoke")
CLOSED = 4
"""Two of four heads in both encoder layers."""
WORTH = (1.0, 0.05, 0.0, 0.25)


def worth(head: HeadId) -> float:
    return {"encoder": 0.2, "decoder": 0.1, "cross": 0.5}[head.kind] * WORTH[head.head]


@pytest.fixture(scope="module")
def tables(planted: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """Relevance of 2019 knows what heads are worth; the signed one has it upside down."""

    def masked(trained: Any, run: Any, store: Store) -> Any:
        loss = np.array([sum(map(worth, mask)) * (1 + (len(mask) > 1)) for mask in run.masks])
        return replace(planted.masked(trained, run, store), loss=loss)

    def relevance(trained: Any, run: Any, store: Store) -> dict[str, RatioSums]:
        sign = -1.0 if run.variant is Variant.SIGNED else 1.0
        found = {
            kind: [[worth(HeadId(kind, layer, head)) for head in range(4)] for layer in range(2)]
            for kind in Kind
        }
        one = torch.ones(2, 3, 1, 1, dtype=torch.float64)
        return {
            f"raw/{kind}": RatioSums(one * sign * torch.tensor(rows, dtype=torch.float64), one)
            for kind, rows in found.items()
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "trained", lambda run, store: planted.model)
        patch.setattr(page, "masked", masked)
        patch.setattr(ablations, "masked", masked)
        patch.setattr(importance_scores, "importance", planted.importance)
        patch.setattr(importance_scores, "relevance", relevance)
        patch.setattr(importance_scores, "_confidence", lambda *given: np.full(24, 0.5))
        yield page.trained_here(CONFIG, Store(tmp_path_factory.mktemp("runs")))


def test_ranks_correlate_as_scipy_says_and_a_constant_has_no_rank():
    noise = np.random.default_rng(1)
    scores = noise.integers(5, size=(3, 30)).astype(float)
    assert spearman(scores) == pytest.approx(spearmanr(scores, axis=1).statistic)
    found = spearman(np.array([[1.0, 2, 3], [5, 5, 5], [3, 2, 1], [1, np.nan, 2]]))
    assert found[0, 2] == pytest.approx(-1)
    assert np.isnan(found[1]).all() and np.isnan(found[3]).all()


def test_heads_are_drawn_within_their_group():
    drawn = drawn_within(["a", "b", "a", "b", "b"], 50)
    assert list(drawn[0]) == [0, 1, 2, 3, 4]
    assert set(drawn[1:, [0, 2]].ravel()) == {0, 2} and set(drawn[1:, 1].ravel()) == {1, 3, 4}
    assert interval(np.array([0.5, 0.0, np.nan, 1.0]))[1:] == pytest.approx((0.025, 0.975))


def test_measures_agree_as_they_were_planted(tables: Tables):
    signed, main, _ = RELEVANCE.values()
    for scope in ("encoder", "all kinds"):
        rows = page.with_ablation(tables, scope).set_index("key")["value"]
        assert rows[main] == pytest.approx(1)
        assert rows[signed] == pytest.approx(-1)
        assert rows[IMPORTANCE[0]] == pytest.approx(1)
        assert np.isnan(rows[CONFIDENCE])
        assert abs(rows[RANDOM]) < 1
        assert set(rows.index) == set(page.NAMES)


def test_halves_take_as_many_of_every_layer(tables: Tables, planted: Any):
    order = tuple(reversed(list(all_heads(planted.model.untrained()))))
    encoder = tuple(head for head in order if head.kind == Kind.ENCODER)
    assert page.half(encoder) == tuple(
        HeadId(Kind.ENCODER, layer, head) for layer in (0, 1) for head in (2, 3)
    )
    joint = tables["joint"]
    assert set(joint["removed"].where(joint["chosen_by"] != FULL, CLOSED)) == {CLOSED}
    assert list(joint["chosen_by"]) == [FULL, *HALVES, *[RANDOM] * 3]


def test_what_goes_together_costs_what_was_planted(tables: Tables):
    joint = tables["joint"].groupby("chosen_by")[["bleu", "loss_added_nats", "one_by_one_nats"]]
    mean = joint.mean()
    assert mean.loc[LEAST_RELEVANT, "one_by_one_nats"] == pytest.approx(2 * 0.2 * 0.05)
    assert mean.loc[MOST_RELEVANT, "one_by_one_nats"] == pytest.approx(2 * 0.2 * 1.25)
    together = mean.drop(FULL)
    assert list(together["loss_added_nats"]) == pytest.approx(list(2 * together["one_by_one_nats"]))
    assert mean.loc[LEAST_RELEVANT, "bleu"] > mean.loc[RANDOM, "bleu"]
    assert mean.loc[RANDOM, "bleu"] > mean.loc[MOST_RELEVANT, "bleu"]
    assert mean.loc["least relevant, signed", "bleu"] == mean.loc[MOST_RELEVANT, "bleu"]


def test_claims_are_rows_the_scorecard_takes(tables: Tables):
    claims = checked(
        ledger.load(), tables["claims"].astype({"seed": str}), "25_do_measures_agree", "test"
    )
    mine = {claim.id for claim in ledger.load().claims if claim.study == "25_do_measures_agree"}
    released = {name for name in mine if name.startswith("information-")}
    assert set(claims["claim"]) == mine - released and len(released) == 3
    rows = claims.set_index("claim")
    assert rows.loc["voita-s4-relevance-agrees-with-ablation", "low"] > 0
    assert np.isnan(rows.loc["voita-s4-confidence-agrees-with-ablation", "value"])
    bleu = tables["joint"].groupby("chosen_by")["bleu"].mean()
    together = rows.loc["voita-s4-least-relevant-can-go-together"]
    assert together["value"] == pytest.approx(bleu[LEAST_RELEVANT] - bleu[RANDOM])
    assert together["baseline"] == pytest.approx(bleu[RANDOM]) and together["low"] > 0


def test_every_pair_of_measures_has_a_row(tables: Tables):
    measures = tables["heads"]["measure"].nunique()
    assert len(tables["agreement"]) == 2 * measures * (measures - 1) / 2
    assert ABLATION in set(tables["heads"]["measure"])
    assert len(page.with_each_other(tables)) == 3


def test_a_measure_that_tells_layers_apart_alone_agrees_over_heads_and_not_within_layers():
    layers, heads = np.indices((6, 8)).reshape(2, -1) + 1
    noise = np.random.default_rng(0)
    missed, apart = (10.0 - layers + noise.random(48) for _ in range(2))
    scores = {ABLATION: missed, page.MAIN: apart, CONFIDENCE: -missed, IMPORTANCE[0]: missed,
              page.VALID_ABLATION: 2 * missed}  # fmt: skip
    rows = [
        pd.DataFrame({"layer": layers, "head": heads, "measure": name, "score": each})
        for name, each in scores.items()
    ]
    table = pd.concat(rows).assign(kind=Kind.ENCODER, model="m")
    found = page.within({"heads": table}).set_index("key")
    assert found["value"][
        [CONFIDENCE, IMPORTANCE[0], page.VALID_ABLATION]
    ].tolist() == pytest.approx([-1, 1, 1])
    assert spearmanr(missed, apart).statistic > 0.9
    by_layer = [
        spearmanr(*each).statistic
        for each in zip(missed.reshape(6, 8), apart.reshape(6, 8), strict=True)
    ]
    assert found.loc[page.MAIN, "value"] == pytest.approx(np.mean(by_layer))
    assert found.loc[page.MAIN, "low"] < 0 < found.loc[page.MAIN, "high"]


def test_random_halves_are_one_row_from_their_smallest_to_their_largest_loss(tables: Tables):
    rows = page.halves(tables)
    assert len(rows) == len(HALVES) + 1
    (chance,) = rows.query("chosen_by == 'at random'").to_dict("records")
    drawn = tables["joint"].query("chosen_by == @RANDOM")["difference"]
    assert (chance["low"], chance["high"]) == (drawn.min(), drawn.max())
    assert chance["value"] == pytest.approx(drawn.mean())


def test_facts_of_the_planted_model(tables: Tables):
    found = page.facts(tables)
    assert found["relevance_1"].startswith("+1.00 [")
    assert found["ceiling_1"].startswith("+1.00 [")
    assert found["heads_1"] == "8" and found["draws"] == "3"
