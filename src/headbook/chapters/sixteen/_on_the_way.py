"""Page 26, long trainings: a model's heads at every snapshot, and released ones as the far end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import torch
from tqdm import tqdm

from headbook.artefacts.catalogue import recipe
from headbook.artefacts.recipe import Task
from headbook.artefacts.texts import HELD_OUT, Text
from headbook.chapters.sixteen._specialisation import (
    CONFIDENCE,
    Score,
    Sharpest,
    most_confident,
    offset_of,
    sharpest,
)
from headbook.chapters.tables import claim_row
from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import Place, PositionalShare
from headbook.heads.rare import RareShare
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.looking.load import load
from headbook.looking.on_the_way import OnTheWay
from headbook.looking.passes import aligned, pass_over, ranks_in
from headbook.looking.text import text as text_of
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.trees import RELATION_DIRECTIONS
from headbook.types import Kind

SAMPLE = "ewt-sample"
SENTENCES = 500
MASKED, TRANSLATION = "mixture-fr-256-masked", "mixture-fr-256"
"""One encoder, two objectives, one text."""
OBJECTIVES = {Task.MASKED: "hidden words", Task.TRANSLATION: "translation"}
RELEASED = "released"
HALF = 0.5
"""Of its last value: from where a share counts as there."""
SOONER, BEFORE, FIRST = (
    "emergence-masking-sooner",
    "emergence-before-quality",
    "emergence-own-before-neighbour",
)


@dataclass(frozen=True)
class Moment:
    """One model after so many updates (None: released) on one text."""

    name: str
    objective: str
    update: int | None
    text: str
    sentences: int
    sums: dict[str, RatioSums]
    nats: float  # per predicted token of the training's own held-out text

    def sharpest(self, scored: Score) -> Sharpest:
        return sharpest(self.sums, scored)

    def row(self) -> dict[str, object]:
        """Of every score: the head chosen on one half, its value and interval on the other."""
        update = np.nan if self.update is None else self.update
        row = {"model": self.name, "objective": self.objective, "update": update,
               "text": self.text, "sentences": self.sentences, "nats": self.nats}  # fmt: skip
        for scored in Score:
            if scored is Score.MARGIN and "syntactic" not in self.sums:
                continue
            found = self.sharpest(scored)
            row |= _numbers(scored, found)
            if scored in (Score.NEIGHBOUR, Score.OTHER):
                row[f"{scored}_offset"] = offset_of(found, Place(scored))
            if scored is Score.MARGIN:
                relation, direction = RELATION_DIRECTIONS[found.cell]
                row["relation"] = f"{relation}, {direction}"
        return row | _numbers(CONFIDENCE, most_confident(self.sums))


def _numbers(name: str, found: Sharpest) -> dict[str, object]:
    low, high = found.ends
    return {str(name): found.value, f"{name}_low": low, f"{name}_high": high,
            f"{name}_layer": found.layer + 1, f"{name}_head": found.head + 1}  # fmt: skip


@dataclass(frozen=True)
class Way:
    """A training from the untrained model to its last snapshot, on its own held-out text."""

    name: str
    own: tuple[Moment, ...]
    gold: tuple[Moment, ...]

    @cached_property
    def shares(self) -> dict[Score, list[float]]:
        return {each: [moment.sharpest(each).value for moment in self.own]
                for each in (Score.OWN, Score.NEIGHBOUR)}  # fmt: skip

    def there(self, scored: Score) -> int:
        """Index of the first snapshot from which the share is HALF of its last, or more."""
        values = self.shares[scored]
        return next(at for at, value in enumerate(values) if value >= HALF * values[-1])


def way(name: str, store: Store, sentences: int = SENTENCES) -> Way:
    """Every snapshot of a training on its own held-out text and on the gold trees of the sample."""
    training = OnTheWay.of(name, store)
    objective = OBJECTIVES[recipe(name).task]
    (pairs, *_) = training.trained.corpus.tests.values()
    pairs = pairs.first(sentences)
    own = Text(HELD_OUT, pairs.source, pairs.target, (), "")
    gold = text_of(SAMPLE, first=sentences)
    found: dict[str, list[Moment]] = {HELD_OUT: [], SAMPLE: []}
    with tqdm(training, desc=name, unit="model", total=len(training.updates)) as moments:
        for update, model in moments:
            nats = _nats(model, own)
            for text in (own, gold):
                sums = measured(model, text)
                found[text.name].append(
                    Moment(name, objective, update, text.name, len(text.sentences), sums, nats)
                )
    return Way(name, *map(tuple, found.values()))


@torch.inference_mode()
def _nats(model: Loaded, text: Text) -> float:
    batches = model.batches(text.sentences, text.targets, 2048)
    return float(torch.cat([model.losses(batch) for batch in batches]).double().mean())


def measured(model: Loaded, text: Text) -> dict[str, RatioSums]:
    """The sums that `sharpest` reads, of the encoder's heads; syntax where there are trees."""
    batches = model.batches(text.sentences, None, 2048)
    measures: dict[str, HeadMeasure] = {
        f"confidence/{Kind.ENCODER}": Confidence(Kind.ENCODER),
        f"positional/{Kind.ENCODER}": PositionalShare(Kind.ENCODER),
        "rare": RareShare(ranks_in(batches)),
    }
    if text.trees:
        trees = aligned(model, text)
        measures |= {"syntactic": SyntacticAccuracy(trees), "offsets": OffsetShare(trees)}
    return pass_over(model.network, batches, measures, shown=False)


def at_their_end(models: Sequence[str], sentences: int | None) -> pd.DataFrame:
    """Models as they can be loaded, on the gold trees of the sample, one row per model."""
    text = text_of(SAMPLE, first=sentences)
    rows = []
    for name in models:
        sums = measured(load(name), text)
        moment = Moment(name, RELEASED, None, SAMPLE, len(text.sentences), sums, np.nan)
        rows.append(moment.row())
    return pd.DataFrame(rows).drop(columns=["objective", "update", "nats"])


def rows(ways: Sequence[Way]) -> pd.DataFrame:
    """One row per training, snapshot and text."""
    return pd.DataFrame([moment.row() for way in ways for moment in (*way.own, *way.gold)])


def claims(ways: Sequence[Way]) -> Iterator[dict[str, object]]:
    """When each came, and masking beside translation after as many updates."""
    for each in ways:
        if each.name == MASKED:
            yield claim_row(BEFORE, _labels(each), learnt_by(each, each.there(Score.NEIGHBOUR)))
            later = each.there(Score.NEIGHBOUR) - each.there(Score.OWN)
            yield claim_row(FIRST, _labels(each), float(later))
    by_name = {each.name: {moment.update: moment for moment in each.own} for each in ways}
    if {MASKED, TRANSLATION} <= by_name.keys():
        both = max(by_name[MASKED].keys() & by_name[TRANSLATION].keys())
        masked, translating = (
            by_name[name][both].sharpest(Score.NEIGHBOUR).replicates
            for name in (MASKED, TRANSLATION)
        )
        labels = _labels(next(each for each in ways if each.name == MASKED))
        yield claim_row(SOONER, labels, *interval(masked - translating))


def learnt_by(each: Way, index: int) -> float:
    """How much of the fall of its loss, from the untrained model to the last, has come by then."""
    nats = [moment.nats for moment in each.own]
    return (nats[0] - nats[index]) / (nats[0] - nats[-1])


def _labels(each: Way) -> dict[str, object]:
    return {"model": each.name, "corpus": recipe(each.name).corpus, "target": "",
            "seed": recipe(each.name).seed}  # fmt: skip
