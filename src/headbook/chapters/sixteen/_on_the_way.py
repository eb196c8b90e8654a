"""Page 26, long trainings: a model's heads at every snapshot, and released ones as the far end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import SupportsFloat

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from headbook.artefacts.catalogue import recipe
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.recipe import Task
from headbook.artefacts.relevance import RelevanceRun, relevance
from headbook.artefacts.texts import HELD_OUT, Text
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.sixteen._order_of_roles import MASKED, TRANSLATION, halfway, three
from headbook.chapters.sixteen._specialisation import (
    BLEU,
    CONFIDENCE,
    Score,
    Sharpest,
    most_confident,
    offset_of,
    sharpest,
)
from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import Place, PositionalShare
from headbook.heads.rare import RareShare
from headbook.heads.relevance_rules import Variant
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.looking.load import load
from headbook.looking.on_the_way import OnTheWay
from headbook.looking.ours import OurModel
from headbook.looking.passes import aligned, pass_over, ranks_in
from headbook.looking.text import text as text_of
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.training.scoring import Casing, bleu, chrf, translate_corpus
from headbook.trees import RELATION_DIRECTIONS
from headbook.types import Kind

SAMPLE = "ewt-sample"
SENTENCES = 500
CONVERGED = words.OURS
"""The same translation model, with batches in which it converges."""
TRAININGS = (CONVERGED, MASKED, TRANSLATION)
NAMES = dict(zip(TRAININGS, ("translation", "hidden words", "small batches"), strict=True))
"""As the page calls them."""
OBJECTIVES = {Task.MASKED: "hidden words", Task.TRANSLATION: "translation"}
RELEASED, STUDENT = "released", "firefox-en-pt"
EXPLAINED = 100
"""Validation sentences at most whose translations relevance is measured on."""
TRANSLATED = [
    f"{name}{end}"
    for names, ends in ((("bleu", "chrf"), ("", "_half", "_signature")),
                        (("relevance", "neighbour_relevance"), ("", "_low", "_high")))
    for name in names for end in ends
]  # fmt: skip
"""Columns of `Translating`."""


@dataclass(frozen=True)
class Translating:
    """A translation model's BLEU and chrF, and each encoder head's part of its layer's relevance.

    Scores are of the own held-out text, relevance of the first validation sentences.
    """

    scores: Mapping[str, object]
    relevance: Float[Tensor, "replicate layer head"]

    def columns(self, neighbour: Sharpest) -> dict[str, object]:
        """With relevance over an even part: of a layer's most relevant head, mean over layers, and
        of the head at a neighbour."""
        over_even = self.relevance * self.relevance.shape[-1]
        found = {"relevance": over_even.amax(-1).mean(-1),
                 "neighbour_relevance": over_even[:, neighbour.layer, neighbour.head]}  # fmt: skip
        row = dict(self.scores)
        for name, values in found.items():
            row[name], row[f"{name}_low"], row[f"{name}_high"] = interval(values)
        return row


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
    translating: Translating | None = None

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
        if self.translating is not None:
            row |= self.translating.columns(self.sharpest(Score.NEIGHBOUR))
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
            nats, translating = _nats(model, own), _translating(training, update, model, own, store)
            for text in (own, gold):
                moment = Moment(
                    name, objective, update, text.name, len(text.sentences),
                    measured(model, text), nats, translating if text is own else None,
                )  # fmt: skip
                found[text.name].append(moment)
    return Way(name, *map(tuple, found.values()))


@torch.inference_mode()
def _nats(model: Loaded, text: Text) -> float:
    batches = model.batches(text.sentences, text.targets, 2048)
    return float(torch.cat([model.losses(batch) for batch in batches]).double().mean())


def _translating(
    training: OnTheWay, update: int, model: Loaded, text: Text, store: Store
) -> Translating | None:
    """None for a model that does not translate."""
    made = training.trained
    if not isinstance(model, OurModel) or not isinstance(made, TrainedModel):
        return None
    encoded = model.source.encode(text.sentences)
    translations = translate_corpus(model.network, encoded, model.target, made.run.search)
    scores: dict[str, object] = {}
    for name, score in (("bleu", bleu), ("chrf", chrf)):
        found = score(translations, text.targets, Casing.CASED)
        scores |= {name: found.score, f"{name}_half": found.half_width,
                   f"{name}_signature": found.signature}  # fmt: skip
    run = RelevanceRun(Variant.CODE_2019, min(EXPLAINED, len(text.sentences)), update)
    parts = relevance(made, run, store)[f"normalised/{Kind.ENCODER}"]
    return Translating(scores, parts.replicates())


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
    """One row per training, snapshot and text; no translations where a model does not translate."""
    found = pd.DataFrame([moment.row() for way in ways for moment in (*way.own, *way.gold)])
    return found.assign(**{name: np.nan for name in TRANSLATED if name not in found})


SCORES = {
    Score.NEIGHBOUR: "a neighbour",
    Score.OWN: "its own token",
    Score.OTHER: "one place farther away",
    Score.RARE: "the two rarest words",
    Score.MARGIN: "a relation, over the best offset",
}
"""Scores as figures name them."""


def through(ways: pd.DataFrame, model: str, text: str = SAMPLE) -> pd.DataFrame:
    """Every score of one training on a text, long: looks at, update, value, low, high."""
    own = ways[(ways["model"] == model) & (ways["text"] == text)]
    parts = [
        own[["update", each, f"{each}_low", f"{each}_high"]]
        .set_axis(["update", "value", "low", "high"], axis=1)
        .assign(**{"looks at": name})
        for each, name in SCORES.items()
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset="value")


def far_end(ends: pd.DataFrame, update: SupportsFloat, model: str = STUDENT) -> pd.DataFrame:
    """The same scores of a model as it was released, placed at that update."""
    (own,) = ends[ends["model"] == model].to_dict("records")
    rows = [{"looks at": name, "value": own[each]} for each, name in SCORES.items()]
    return pd.DataFrame(rows).assign(update=float(update))


def moments(ways: pd.DataFrame) -> pd.DataFrame:
    """Loss and scores of every snapshot of the long trainings, one row per training and update."""
    ways = ways[ways["model"].isin(TRAININGS)].set_index(["model", "update"]).sort_index()
    order = [name for name in TRAININGS if name in ways.index]
    # in the same order: columns are lists as well
    own, gold = (ways[ways["text"] == text].loc[order] for text in (HELD_OUT, SAMPLE))
    frame = pd.DataFrame({
        "training": own.index.get_level_values("model").map(NAMES),
        "nats": own["nats"].map("{:.2f}".format),
        "BLEU": own[BLEU].map("{:.1f}".format, na_action="ignore").fillna("–"),
        "own token": own[Score.OWN].map(words.percent),
        "neighbour": [f"{words.percent(row.neighbour)} "
                      f"({words.signed(float(row.neighbour_offset), 0)}, "
                      f"{words.head(row.neighbour_layer, row.neighbour_head)})"
                      for row in own.itertuples()],
        "rarest": own[Score.RARE].map(words.percent),
        "relation over offset": gold[Score.MARGIN].map(words.points),
        "confidence": own[CONFIDENCE].map(words.percent),
    })  # fmt: skip
    frame = frame.reset_index().drop(columns="model")
    return frame.assign(update=frame["update"].map(words.count))


_PLACE = [f"{Score.MARGIN}_layer", f"{Score.MARGIN}_head"]


def facts(tables: Tables) -> Facts:
    """The numbers of the prose about long trainings."""
    ways, ends = tables["ways"], tables["ends"].set_index("model")
    own = ways[ways["text"] == HELD_OUT]
    found: dict[str, str] = {}
    for name, short in zip(TRAININGS, ("converged", "masked", "translating"), strict=True):
        rows, gold = (each[each["model"] == name].sort_values("update")
                      for each in (own, ways[ways["text"] == SAMPLE]))  # fmt: skip
        last, first = rows.iloc[-1], rows.iloc[0]
        found |= {
            f"{short}_updates": words.count(last["update"]),
            f"{short}_neighbour": words.estimate(*three(last, Score.NEIGHBOUR)),
            f"{short}_neighbour_head": words.head(
                int(last["neighbour_layer"]), int(last["neighbour_head"])
            ),
            f"{short}_own": words.percent(last[Score.OWN]),
            f"{short}_gold": words.percent(gold.iloc[-1][Score.NEIGHBOUR]),
            f"{short}_gold_own": words.percent(gold.iloc[-1][Score.OWN]),
            f"{short}_gold_rare": words.percent(gold.iloc[-1][Score.RARE]),
            f"{short}_margin": words.points(gold.iloc[-1][Score.MARGIN]),
            f"{short}_margin_estimate": words.points_estimate(*three(gold.iloc[-1], Score.MARGIN)),
            f"{short}_margin_head": words.head(*gold.iloc[-1][_PLACE]),
            f"{short}_nats_first": f"{first['nats']:.1f}",
            f"{short}_nats": f"{last['nats']:.1f}",
        }
    masked, translating = (
        own[own["model"] == name].sort_values("update") for name in (MASKED, TRANSLATION)
    )
    end = translating.iloc[-1]
    both = max({*masked["update"]} & {*translating["update"]})
    at_both = own[own["update"] == both].set_index("model")
    there = masked.iloc[halfway(masked, Score.NEIGHBOUR)[0]]
    gold = ways[(ways["text"] == SAMPLE) & (ways["model"] == MASKED)].sort_values("update")
    return (
        found
        | _converging(own)
        | {
            "translating_bleu": f"{end[BLEU]:.1f} ± {end['bleu_half']:.1f}",
            "there_update": words.count(there["update"]),
            "there_nats": f"{there['nats']:.1f}",
            "both": words.count(both),
            "both_masked": words.percent(at_both.loc[MASKED, Score.NEIGHBOUR]),
            "both_translating_estimate": words.estimate(
                *three(at_both.loc[TRANSLATION], Score.NEIGHBOUR)
            ),
            "untrained_neighbour": words.percent(masked[Score.NEIGHBOUR].iloc[0]),
            "sample_sentences": words.count(gold["sentences"].iloc[-1]),
            "student_neighbour": words.percent(ends.loc[STUDENT, Score.NEIGHBOUR]),
            "student_own": words.percent(ends.loc[STUDENT, Score.OWN]),
            "student_rare": words.percent(ends.loc[STUDENT, Score.RARE]),
            "student_margin": words.points(ends.loc[STUDENT, Score.MARGIN]),
        }
    )


def _converging(own: pd.DataFrame) -> Facts:
    """The first, second and last snapshots of the training that converged."""
    rows = own[(own["model"] == CONVERGED) & (own["update"] > 0)].sort_values("update")
    first, last = rows.iloc[0], rows.iloc[-1]
    found: dict[str, str] = {
        "converged_bleu": f"{last[BLEU]:.1f} ± {last['bleu_half']:.1f}",
        "converged_relevance": words.number(*three(last, "neighbour_relevance")),
        "converged_first_own": words.percent(first[Score.OWN]),
        "converged_first_own_head": words.head(int(first["own_layer"]), int(first["own_head"])),
    }
    for when, place in (("first", 0), ("second", 1)):
        row = rows.iloc[place]
        found |= {
            f"converged_{when}": words.count(row["update"]),
            f"converged_{when}_bleu": f"{row[BLEU]:.0f}",
            f"converged_{when}_neighbour": words.percent(row[Score.NEIGHBOUR]),
        }
    return found
