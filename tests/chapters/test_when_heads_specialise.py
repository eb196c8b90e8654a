"""When heads specialise, of planted checkpoints whose moments are known beforehand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.heads import HeadsRun
from headbook.artefacts.model import Size, TrainedModel
from headbook.artefacts.texts import Text
from headbook.chapters.chapter import Tables, find
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement
from headbook.chapters.page import published_tables
from headbook.chapters.sixteen import when_heads_specialise as study
from headbook.chapters.sixteen._specialisation import Score
from headbook.chapters.sixteen.when_heads_specialise import Checkpoint, Emergence
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.corpora.readers import Pairs, ParallelCorpus
from headbook.corpora.report import Report
from headbook.heads.measure import RatioSums
from headbook.runs.store import Store
from headbook.types import Kind

NAME = "26_when_heads_specialise"
UPDATES = (0, 4, 8, 16)
BLEU = (0.0, 10.0, 19.0, 20.0)
POSITIONAL = (0.1, 0.5, 0.6, 0.95)
MARGIN = (-0.3, 0.0, 0.12, 0.05)
"""Reaches ten points once and loses them again."""
REPLICATES = 4


class Snapshots(TrainedModel):
    @property
    def snapshots(self) -> dict[int, Path]:
        return dict.fromkeys(UPDATES[1:], self.folder)


def model(width: int = 16, name: str = "mine") -> TrainedModel:
    none = Pairs((), ())
    corpus = ParallelCorpus(name, "de", none, none, {}, "", Report())
    run = replace(Config("smoke").one_model(), corpus=name, size=Size(2, width, 32, 2))
    return Snapshots(run, Path(), corpus)


def sums(share: float, *shape: int) -> RatioSums:
    """The share in the first cell, nothing elsewhere; every replicate a hundredth less."""
    return at_cell(0, share, *shape)


def at_cell(cell: int, share: float, *shape: int) -> RatioSums:
    numerator = torch.zeros(2, 1 + REPLICATES, *shape, dtype=torch.float64)
    numerator.flatten(2)[..., cell] = share - 0.01 * torch.arange(1 + REPLICATES)
    return RatioSums(numerator, torch.ones_like(numerator))


def fixed(share: float) -> RatioSums:
    """The first head at offset -1, and the second nearly always at its own token."""
    neighbour, own = at_cell(4, share, 2, 2, 11), at_cell(11 + 5, 0.97, 2, 2, 11)
    return RatioSums(neighbour.numerator + own.numerator, neighbour.denominator)


def measured(made: TrainedModel, at: int, name: str = "held-out", less: float = 0.0) -> Measurement:
    number = UPDATES.index(at)
    planted = {
        "positional/encoder": fixed(POSITIONAL[number] - less),
        # a fixed offset is right in half of the cases
        "syntactic": sums(MARGIN[number] + 0.5, 2, 2, 8),
        "offsets": RatioSums(*[torch.full((2, 1 + REPLICATES, 3, 8), each) for each in (0.5, 1.0)]),
        "rare": sums(0.2, 2, 2, 2),
        "confidence/encoder": sums(0.3 + 0.1 * number, 2, 2),
    }
    text = Text(name, (), (), (), "gold")
    return Measurement(made, text, HeadsRun(name, at), planted)


def emergence(width: int = 16, last: int = 16) -> Emergence:
    made = model(width)
    kept = [
        Checkpoint(made, at, BLEU[number],
                   (measured(made, at), measured(made, at, "ud-ewt", less=0.05)),
                   torch.full((5,), 0.5 + 0.1 * number), torch.full((5,), 0.1))
        for number, at in enumerate(UPDATES) if at <= last
    ]  # fmt: skip
    return Emergence(made, tuple(kept))


def claim(rows: list[dict], name: str) -> dict:
    (found,) = [row for row in rows if row["claim"] == name]
    return found


def test_moments_are_the_first_checkpoints_that_reach_them():
    found = emergence()
    assert found.translates.update == 8  # 19 of 20 BLEU are the nine tenths, 10 are not
    assert found.first(Score.NEIGHBOUR).update == 16
    assert found.first(Score.MARGIN).update == 8, "though the last checkpoint has lost it"
    assert found.first(Score.RARE) is None


def test_the_highest_score_is_over_all_checkpoints():
    found = emergence()
    assert found.highest(Score.MARGIN).value == pytest.approx(0.12)
    assert found.highest(Score.NEIGHBOUR).value == pytest.approx(0.95)


def test_claims_say_what_the_ledger_says_they_say():
    rows = list(study._claims(emergence()))
    assert claim(rows, "emergence-neighbour")["value"] == pytest.approx(0.95)
    assert claim(rows, "emergence-syntactic")["value"] == pytest.approx(0.12)
    assert claim(rows, "emergence-neighbour-after-quality")["value"] == pytest.approx(0.95 - 0.6)
    assert claim(rows, "emergence-relevance-dominated")["value"] == pytest.approx(0.3)
    assert claim(rows, "emergence-neighbour-own-domain")["value"] == pytest.approx(0.05)
    thresholds = {each.id: each.rule.threshold for each in ledger.load().claims}
    for name in ("neighbour", "syntactic", "rare"):
        identifier = f"emergence-{name}"
        assert claim(rows, identifier)["baseline"] == thresholds[identifier]


def test_where_quality_comes_at_the_end_nothing_comes_after_it():
    rows = list(study._claims(emergence(last=4)))
    assert np.isnan(claim(rows, "emergence-neighbour-after-quality")["value"])


def test_a_model_that_never_translates_has_no_such_moment():
    silent = emergence()
    silent = replace(silent, checkpoints=tuple(replace(e, bleu=0.2) for e in silent.checkpoints))
    assert silent.translates is None
    rows = list(study._claims(silent))
    assert np.isnan(claim(rows, "emergence-neighbour-after-quality")["value"])
    assert np.isnan(next(study._moments(silent))["update"])


def test_width_is_the_widest_against_the_narrowest_of_one_corpus():
    found = [emergence(32), emergence(64, last=8), emergence(16)]
    (row,) = study._width_claims(found)
    assert row["value"] == pytest.approx(0.6 - 0.95) and row["model"] == "mine w64 s0"
    assert not list(study._width_claims([emergence(16)]))


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tables:
    """Of two planted models, through `compute`."""
    asked = {"relevance": [], "importance": []}

    def relevance(made: TrainedModel, run: study.RelevanceRun, store: Store) -> dict:
        asked["relevance"].append(run)
        return {"normalised/encoder": sums(0.8, 2, 4)}

    def importance(made: TrainedModel, run: study.ImportanceRun, store: Store) -> dict:
        asked["importance"].append(run)
        return {f"position/{kind}": sums(0.8, 2, 4) for kind in Kind}

    def bleu(made: TrainedModel, curves: tuple, count: int, store: Store, at: int) -> object:
        return SimpleNamespace(bleu=[BLEU[UPDATES.index(at)]])

    config = Config("smoke")
    fakes: dict[str, Callable] = {
        "trained": lambda run, store: model(run.size.width, run.corpus),
        "text_of": lambda made, name, config, store: Text(name, (), (), (), "gold"),
        "measure": lambda made, text, store, update: measured(made, update, text.name),
        "score": bleu, "relevance": relevance, "importance": importance,
    }  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(study, name, fake)
    found = study.trained_here(config, Store(tmp_path))
    assert {run.update for runs in asked.values() for run in runs} == set(UPDATES)
    return found


def test_the_top_tenth_s_part_of_all_importance_by_hand(tables: Tables):
    """Three of 24 heads hold everything: the tenth is two heads, two thirds of it."""
    rows = tables["checkpoints"]
    assert rows["importance"].to_numpy() == pytest.approx(2 / 3)
    assert rows["relevance"].to_numpy() == pytest.approx(0.4)  # 0.8 in one layer, 0 in the other


def test_every_checkpoint_is_a_row(tables: Tables):
    rows = tables["checkpoints"]
    assert set(rows["update"]) == set(UPDATES)
    assert list(rows.loc[rows["width"] == 32, "bleu"]) == list(BLEU)
    assert set(rows["head_width"]) == {8, 16}
    confidence = rows.loc[rows["width"] == 32, "confidence"]
    assert list(confidence) == pytest.approx([0.3, 0.4, 0.5, 0.6])


def test_claims_are_rows_the_scorecard_takes(tables: Tables):
    known = ledger.load()
    claims = checked(known, tables["claims"].astype({"seed": str}), NAME, "test")
    # superseded claims are published and not measured again
    mine = {each.id for each in known.claims if each.study == NAME and not each.superseded}
    mine -= {"emergence-neighbour-own-domain"}  # one text: no other domain
    mine -= {study.order.BEFORE, study.order.FIRST, study.order.SOONER}  # of long trainings
    assert set(claims["claim"]) == mine


def test_a_head_at_its_own_token_is_no_positional_head(tables: Tables):
    rows = tables["checkpoints"]
    assert (rows["own"] > 0.9).all() and rows["neighbour"].max() == pytest.approx(0.95)
    assert set(rows["neighbour_offset"]) == {-1}
    first = tables["moments"].query("moment.str.startswith('first positional')")
    assert set(first["update"]) == {16}


def test_series_are_means_over_the_seeds_of_a_corpus_and_width(tables: Tables) -> None:
    rows = tables["checkpoints"]
    both = pd.concat([rows, rows.assign(seed=1, neighbour=rows["neighbour"] + 0.2)])
    found = study.through({**tables, "checkpoints": both}, "neighbour")
    one = rows[(rows["width"] == 32) & (rows["text"] == "held-out")].set_index("update")[
        "neighbour"
    ]
    mine = found[found["series"].str.endswith("width 32")].set_index("update")
    assert mine["value"].to_dict() == pytest.approx((one + 0.1).to_dict())
    assert mine["low"].to_dict() == pytest.approx(one.to_dict())


def test_moments_that_never_came_say_so(tables: Tables) -> None:
    assert list(study.moments(tables)["update"].unique()) == ["8", "16", "never"]


def test_facts_count_heads_at_their_own_token_apart() -> None:
    """The planted fault: heads at -1 or +1 among those whose offset is known are not counted."""
    tables = published_tables(find(26).name)
    facts = study.facts(tables)
    assert "nan" not in " ".join(map(str, facts.values()))
    own = sum(int(offset) == 0 for offset in tables["offsets_told"]["offset"])
    assert (facts["own"], facts["told"]) == (str(own), str(len(tables["offsets_told"])))
    neighbours = tables["offsets_told"].assign(offset="-1")
    assert study.facts(tables | {"offsets_told": neighbours})["own"] == "0"
    assert "any_offset" in tables["checkpoints"], "a new measurement needs a new page"
