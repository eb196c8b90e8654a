"""Page 26: when heads specialise, and how well the model translates by then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import torch

from headbook.artefacts.importance import ImportanceRun, importance
from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.pruning_orders import SCORED_ON
from headbook.artefacts.relevance import RelevanceRun, relevance
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measure, text_of
from headbook.chapters.results import published
from headbook.chapters.sixteen import _on_the_way as long
from headbook.chapters.sixteen import _order_of_roles as order
from headbook.chapters.sixteen import _three_seeds as three_seeds
from headbook.chapters.sixteen._curves import score
from headbook.chapters.sixteen._specialisation import (
    BLEU,
    CONFIDENCE,
    Replicates,
    Score,
    Sharpest,
    most_confident,
    offset_of,
    sharpest,
    threshold,
)
from headbook.chapters.tables import claim_row, claims_table, model_labels, stacked
from headbook.chapters.trained import Parsed, at_profile
from headbook.claims.gates import RELEASED
from headbook.heads.importance import Form
from headbook.heads.positional import Place, place_of
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind, UserError

NUMBER = 26
TITLE = "When do heads specialise?"
WORK = "headbook"
STUDY = "26_when_heads_specialise"
KEYS = ("model", "text", "sentences", "update")
"""With the update: a training may go on where its first snapshots are no longer kept."""
QUALITY = 0.9
"""Of the last checkpoint's BLEU: from where a model is said to translate."""
MOMENTS = {
    BLEU: f"BLEU at {QUALITY:.0%} of its last",
    Score.NEIGHBOUR: "first positional head, at a neighbour",
    Score.MARGIN: "first syntactic head",
    Score.RARE: "first rare-word head",
}
CORPORA = {
    "multi30k-de": "Multi30k en–de",
    "tatoeba-de": "Tatoeba en–de",
    "tatoeba-fr": "Tatoeba en–fr",
    "msdocs-ru": "msdocs en–ru",
}
"""Corpora as figures name them."""
LEAST_BLEU = 1.0
"""Below it a model does not translate."""
WATCHED = 100
"""Sentences at most that relevance and importance are measured on, at every checkpoint."""
TOP = 0.1
"""The share of all heads whose part of the importance is looked at."""
CLAIMS = {
    Score.NEIGHBOUR: "emergence-neighbour",
    Score.MARGIN: "emergence-syntactic",
    Score.RARE: "emergence-rare",
}


@dataclass(frozen=True)
class Checkpoint:
    """One model after so many updates, measured on each text; the first is its own held-out."""

    model: TrainedModel
    update: int
    bleu: float
    measured: tuple[Measurement, ...]
    relevance: Replicates
    importance: Replicates

    def sharpest(self, scored: Score, text: int = 0) -> Sharpest:
        return sharpest(self.measured[text].sums, scored)


@dataclass(frozen=True)
class Emergence:
    """The checkpoints of one model, from the untrained one to the last."""

    model: TrainedModel
    checkpoints: tuple[Checkpoint, ...]

    @property
    def labels(self) -> dict[str, object]:
        size = self.model.run.size
        return {**model_labels(self.model), "width": size.width,
                "head_width": size.width // size.heads}  # fmt: skip

    @property
    def last(self) -> Checkpoint:
        return self.checkpoints[-1]

    @cached_property
    def translates(self) -> Checkpoint | None:
        """The first checkpoint whose BLEU is nearly that of the last; None where that is none."""
        least = max(LEAST_BLEU, QUALITY * self.last.bleu)
        return next((each for each in self.checkpoints if each.bleu >= least), None)

    def highest(self, scored: Score) -> Sharpest:
        """Over all checkpoints; the checkpoint is chosen as its head is, on the first half."""
        found = [each.sharpest(scored) for each in self.checkpoints]
        return max(found, key=lambda each: each.chosen)

    def first(self, scored: Score) -> Checkpoint | None:
        """First place at which a head has the role; None where none ever does."""
        reached = (
            each for each in self.checkpoints if each.sharpest(scored).value >= threshold(scored)
        )
        return next(reached, None)


@dataclass(frozen=True)
class Parameters(Parsed):
    """And models measured as they can be loaded, and trainings at every snapshot in the store."""

    ends: tuple[str, ...] = (long.MASKED, words.NARROW)
    ways: tuple[str, ...] = ()


def compute(parameters: Parameters, store: Store) -> Tables:
    """Long trainings and what can be loaded; every checkpoint of every model of a profile."""
    tables = at_profile(parameters, store, trained_here, released=("ends", "ways"))
    if parameters.ends:
        tables |= {"ends": long.at_their_end(parameters.ends, parameters.sentences)}
    if parameters.ways:
        sentences = parameters.sentences or long.SENTENCES
        found = [long.way(name, store, sentences) for name in parameters.ways]
        rows = long.rows(found)
        known = _with_published(rows)
        asked = claims_table(order.of_pairs(known))
        tables |= {
            "ways": rows,
            "claims": stacked([tables.get("claims", asked[:0]), asked]),
        }
    return tables


def _with_published(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, and published ones of snapshots that are not among them."""
    try:
        known = published(STUDY, RELEASED).tables.get("ways", rows[:0])
    except UserError:  # never published
        return rows
    here, there = (pd.MultiIndex.from_frame(each[list(KEYS)]) for each in (rows, known))
    return pd.concat([rows, known[~there.isin(here)]], ignore_index=True)


def trained_here(config: Config, store: Store) -> Tables:
    """Every checkpoint of every model: BLEU, the most specialised heads, relevance, importance."""
    models = [trained(run, store) for run in config.emerging_models()]
    found = [Emergence(each, tuple(_checkpoints(each, config, store))) for each in models]
    rows = [row for each in found for row in _rows(each)]
    moments = [row for each in found for row in _moments(each)]
    claims = [row for each in found for row in _claims(each)]
    return {
        "checkpoints": pd.DataFrame(rows),
        "moments": pd.DataFrame(moments),
        "claims": pd.DataFrame([*claims, *_width_claims(found)]),
    }


def _checkpoints(model: TrainedModel, config: Config, store: Store) -> Iterator[Checkpoint]:
    preset = config.preset.pruning
    texts = [text_of(model, name, config, store) for name in config.texts[:2]]
    sentences = min(WATCHED, preset.examined)
    for update in (0, *model.snapshots):
        yield Checkpoint(
            model,
            update,
            float(score(model, preset.translated, store, update).bleu[0]),
            tuple(measure(model, text, store, update=update) for text in texts),
            _relevance(model, update, sentences, store),
            _importance(model, update, sentences, store),
        )


def _relevance(model: TrainedModel, update: int, sentences: int, store: Store) -> Replicates:
    """The largest part that one head has of its layer's relevance, mean over encoder layers."""
    found = relevance(model, RelevanceRun(Variant.CODE_2019, sentences, update), store)
    return found[f"normalised/{Kind.ENCODER}"].replicates().amax(-1).mean(-1)


def _importance(model: TrainedModel, update: int, sentences: int, store: Store) -> Replicates:
    """The part of all heads' importance, of whatever kind, that the top tenth of them holds."""
    found = importance(model, ImportanceRun(sentences, update, SCORED_ON), store)
    kinds = [found[f"{Form.POSITION}/{kind}"].replicates().flatten(1) for kind in Kind]
    every = torch.cat(kinds, dim=1).sort(dim=1, descending=True).values
    count = max(1, round(TOP * every.shape[1]))
    return every[:, :count].sum(1) / every.sum(1)


def _rows(emergence: Emergence) -> Iterator[dict[str, object]]:
    """One row per checkpoint and text; measures of held-out sentences are empty elsewhere."""
    for each in emergence.checkpoints:
        for number, measured in enumerate(each.measured):
            row = {**emergence.labels, "update": each.update, "text": measured.text.name,
                   "parser": measured.text.parser}  # fmt: skip
            for scored in Score:
                found = each.sharpest(scored, number)
                row |= _named(scored, found.value, *found.ends)
                if scored in (Score.NEIGHBOUR, Score.OTHER):
                    row[f"{scored}_offset"] = offset_of(found, Place(scored))
            confident = most_confident(measured.sums)
            row |= _named(CONFIDENCE, confident.value, *confident.ends)
            own = measured.text.name == HELD_OUT
            row[BLEU] = each.bleu if own else float("nan")
            for name in ("relevance", "importance"):
                values = getattr(each, name)
                numbers = interval(values) if own else [float("nan")] * 3
                row |= _named(name, *numbers)
            yield row


def _named(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {str(name): value, f"{name}_low": low, f"{name}_high": high}


def _moments(emergence: Emergence) -> Iterator[dict[str, object]]:
    """One row per moment: the update, BLEU then, and the highest score reached at all."""
    for name in MOMENTS:
        at = emergence.translates if name == BLEU else emergence.first(Score(name))
        highest = emergence.last.bleu if name == BLEU else emergence.highest(Score(name)).value
        yield {
            **emergence.labels, "moment": MOMENTS[name],
            "update": float("nan") if at is None else at.update,
            "bleu": float("nan") if at is None else at.bleu,
            "updates": emergence.last.update, "last_bleu": emergence.last.bleu,
            "highest": highest,
        }  # fmt: skip


def _claims(emergence: Emergence) -> Iterator[dict[str, object]]:
    labels, last = emergence.labels, emergence.last
    for scored, claim in CLAIMS.items():
        found = emergence.highest(scored)
        yield claim_row(claim, labels, found.value, *found.ends, threshold(scored))
    neighbour = last.sharpest(Score.NEIGHBOUR).replicates
    then = emergence.translates
    earlier = torch.full_like(neighbour, torch.nan)
    if then is not None and then is not last:
        earlier = then.sharpest(Score.NEIGHBOUR).replicates
    yield _difference("emergence-neighbour-after-quality", labels, neighbour - earlier)
    first = emergence.checkpoints[0]
    dominating = last.relevance - first.relevance
    yield _difference("emergence-relevance-dominated", labels, dominating)
    for number in range(1, len(last.measured)):
        elsewhere = last.sharpest(Score.NEIGHBOUR, number).replicates
        yield _difference("emergence-neighbour-own-domain", labels, neighbour - elsewhere)


def _width_claims(found: Sequence[Emergence]) -> Iterator[dict[str, object]]:
    """The widest model of a corpus against the narrowest of the same seed, at their last update."""
    of_corpus: dict[tuple[object, object], list[Emergence]] = {}
    for each in found:
        key = (each.labels["corpus"], each.labels["seed"])
        of_corpus.setdefault(key, []).append(each)
    for group in of_corpus.values():
        group.sort(key=lambda each: each.labels["width"])
        narrow, wide = group[0], group[-1]
        if narrow.labels["width"] < wide.labels["width"]:
            both = (each.last.sharpest(Score.NEIGHBOUR).replicates for each in (wide, narrow))
            yield _difference("emergence-neighbour-width", wide.labels, torch.sub(*both))


def _difference(claim: str, labels: dict[str, object], values: Replicates) -> dict[str, object]:
    return claim_row(claim, labels, *interval(values))


def through(tables: Tables, column: str) -> pd.DataFrame:
    """A column of the checkpoints on held-out sentences: series, update, value, low, high.

    A series is a corpus and a width: mean, smallest and largest over its seeds.
    """
    rows = tables["checkpoints"]
    rows = rows[rows["text"] == HELD_OUT]
    series = rows["corpus"].replace(CORPORA) + ", width " + rows["width"].astype(str)
    found = rows.assign(series=series).groupby(["series", "update"], sort=False)[column]
    return found.agg(value="mean", low="min", high="max").reset_index()


def moments(tables: Tables) -> pd.DataFrame:
    """When each role first came and how far each score ever came, one row per model and moment."""
    rows = tables["moments"]
    never = rows["update"].isna()
    return pd.DataFrame(
        {
            "model": rows["model"].map(words.model),
            "moment": rows["moment"],
            "update": ["never" if none else words.count(at)
                       for at, none in zip(rows["update"].fillna(0), never, strict=True)],
            "BLEU then": rows["bleu"].map("{:.1f}".format).where(~never, ""),
            "highest": rows["highest"].map("{:.3g}".format),
        }
    )  # fmt: skip


def told(tables: Tables) -> pd.DataFrame:
    """Rows of another page's table with a known offset: model, head, offset, share."""
    rows = tables["offsets_told"]
    return pd.DataFrame(
        {
            "model": rows["model"].map(words.model),
            "head": [words.head(*each) for each in zip(rows["layer"], rows["head"], strict=True)],
            "offset": [words.signed(float(each), 0) for each in rows["offset"]],
            "share": rows["share"].map(words.percent),
        }
    )  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of tables that do not tell the offset, as they are published."""
    rows = tables["checkpoints"].query("text == 'held-out'")
    moments = tables["moments"]
    claims = tables["claims"].groupby("claim")["value"]
    places = tables["offsets_told"]["offset"].map(lambda offset: place_of(int(offset)))
    syntactic, rare = (moments.loc[moments["moment"] == MOMENTS[each]]
                       for each in (Score.MARGIN, Score.RARE))  # fmt: skip
    return (
        {
            "models": str(rows["model"].nunique()),
            "any_highest": words.percent(float(claims.max()["emergence-positional"])),
            "told": str(len(places)),
            "own": str(int((places == Place.OWN).sum())),
            "syntactic_highest": f"{100 * syntactic['highest'].max():.1f} points",
            "syntactic_threshold": words.points(threshold(Score.MARGIN)),
            "rare_highest": words.percent(float(rare["highest"].max())),
            "rare_threshold": words.percent(threshold(Score.RARE)),
            "neighbour_threshold": words.percent(threshold(Score.NEIGHBOUR)),
        }
        | long.facts(tables)
        | three_seeds.facts(tables)
    )
