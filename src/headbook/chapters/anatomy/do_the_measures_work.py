"""Page 02: heads with planted functions and noise go through every measure, live.

Every value is compared with the one that must come out, counted in plain Python (`_expected`), and
heads of random weights must reach no role.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.anatomy import _expected as expected
from headbook.chapters.anatomy._expected import Expectation, Looking, Row, Sentence, Trial
from headbook.chapters.anatomy._sample import Text, sample
from headbook.chapters.chapter import Facts, Tables
from headbook.corpora.batches import Batch
from headbook.heads import planted
from headbook.heads.arcs import PieceRule
from headbook.heads.confidence import Confidence
from headbook.heads.diversity_maps import MapEntropy
from headbook.heads.measure import REPLICATES, HeadMeasure, Selection
from headbook.heads.offset_baseline import OffsetShare, offset_baseline
from headbook.heads.positional import REACH, Place, PositionalShare, place_of
from headbook.heads.random_head import random_heads
from headbook.heads.rare import OUTSIDE_TOP, RareShare
from headbook.heads.recording import Shared
from headbook.heads.roles import Thresholds, roles
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tokens import Counting, EosKeys
from headbook.runs.store import Store
from headbook.trees import RELATION_DIRECTIONS, Direction
from headbook.types import Kind

NUMBER = 2
TITLE = "Do the measures work?"
WORK = "headbook"
KEYS = ("sentences", "seed", "heads")

NOISES = (0.0, 0.1, 0.25, 0.5)
ROUNDING = 1e-6
"""Weights have 32 bits."""
OBJECT, VERB = (RELATION_DIRECTIONS.index(("dobj", direction)) for direction in Direction)
RELATION_NAMES = tuple(
    f"{relation}, {way.replace('_to_', ' → ')}" for relation, way in RELATION_DIRECTIONS
)


@dataclass(frozen=True)
class Parameters:
    """How many trees of the sample, how many heads of random weights, and the seed of all noise."""

    sentences: int = 500
    random_heads: int = 48
    seed: int = 0


@dataclass(frozen=True)
class PlantedHead:
    """A head as weights on a batch, the same as rows of a list, and the measure that finds it."""

    name: str
    weights: Callable[[Batch, Text], planted.Weights]
    rows: Callable[[Sentence], list[Row]]
    measure: str


def _shift(name: str, offset: int) -> PlantedHead:
    return PlantedHead(
        name,
        lambda batch, _: planted.at_offset(batch, offset),
        expected.at_offset(offset),
        offset_name(offset),
    )


def _partner(name: str, column: int) -> PlantedHead:
    relation, direction = RELATION_DIRECTIONS[column]
    return PlantedHead(
        name,
        lambda batch, text: planted.at_partner(batch, text.trees, column),
        expected.at_partner(relation, direction is Direction.HEAD_TO_DEPENDENT),
        RELATION_NAMES[column],
    )


def offset_name(offset: int) -> str:
    """The name of an offset's measure, by its place: own token, neighbour, other offset."""
    place = {Place.OWN: "own token", Place.OTHER: "other offset"}.get(place_of(offset), "neighbour")
    return place if not offset else f"{place}, {offset:+d}".replace("-", "−")


HEADS = (
    _shift("own token", 0),
    _shift("previous token", -1),
    _shift("next token", 1),
    _shift("two before", -2),
    _shift("two after", 2),
    _partner("object of the verb", OBJECT),
    _partner("verb of the object", VERB),
    PlantedHead(
        "rarest token",
        lambda batch, text: planted.at_rarest(batch, text.ranks),
        expected.at_rarest,
        "rarest token",
    ),
    PlantedHead("uniform", lambda batch, _: planted.uniform(batch), expected.uniform, "entropy"),
)
OFFSETS = tuple(range(-REACH, REACH + 1))
COUNTS: dict[str, Callable[[Looking], Iterator[Trial]]] = {
    "confidence": expected.confidence,
    **{offset_name(offset): partial(expected.offset, at=offset) for offset in OFFSETS},
    **{
        name: partial(
            expected.relation, name=relation, from_head=way is Direction.HEAD_TO_DEPENDENT
        )
        for name, (relation, way) in zip(RELATION_NAMES, RELATION_DIRECTIONS, strict=True)
    },
    "rarest token": partial(expected.rare, ranks=1, outside_top=OUTSIDE_TOP),
    "one of two rarest": partial(expected.rare, ranks=2, outside_top=OUTSIDE_TOP),
    "entropy": expected.entropy,
}
"""Every measure by name, as it is counted in plain Python."""


def compute(parameters: Parameters, store: Store) -> Tables:
    """Planted heads under every measure and their roles, faulty measures, random heads."""
    text = sample(parameters.sentences)
    labels = {"sentences": len(text.sentences), "seed": parameters.seed}
    known, made = expectations(text), measured(text, parameters.seed)
    baseline = offset_accuracy(text)
    found = {
        "planted": planted_rows(known, by_name(made)),
        "roles": role_rows(made, baseline),
        "faults": fault_rows(text, known, parameters.seed),
        "random_heads": random_rows(text, baseline, parameters.random_heads),
    }
    return {name: pd.DataFrame(rows).assign(**labels) for name, rows in found.items()}


def facts(tables: Tables) -> Facts:
    """The numbers of the page's prose."""
    every, random, faults = tables["planted"], tables["random_heads"], tables["faults"]
    noisy, own = every[every["noise"] > 0], every[every["own"] & (every["head"] != "uniform")]
    gap = (own["value"] - own["expected"]).abs()
    marked = random.dropna(subset="threshold")
    return {
        "sentences": words.count(int(every["sentences"].iloc[0])),
        "heads": str(every["head"].nunique()),
        "measures": str(every["measure"].nunique()),
        "values": words.count(len(every)),
        "found": words.count(int(every["found"].sum())),
        "without_noise": words.count(int((every["noise"] == 0).sum())),
        "covered": words.percent(float(noisy["covered"].mean())),
        "largest_gap": f"{100 * gap.max():.1f} points",
        "faults": str(len(faults)),
        "faults_seen": str((faults["wrong"] > 0).sum()),
        "random_heads": str(random["heads"].iloc[0]),
        "random_above": str((marked["best"] >= marked["threshold"]).sum()),
        "random_neighbour": words.percent(_best(random, offset_name(-1), offset_name(1))),
        "random_relation": words.percent(_best(random, *RELATION_NAMES)),
        "random_rare": words.percent(_best(random, "one of two rarest")),
    }


def measures(text: Text, replicates: int = REPLICATES) -> dict[str, HeadMeasure]:
    """The measures of the book, in families; `by_name` takes them apart."""
    return {
        "confidence": Confidence(Kind.ENCODER, replicates=replicates),
        "positional": PositionalShare(Kind.ENCODER, replicates=replicates),
        "syntactic": SyntacticAccuracy(text.trees, replicates=replicates),
        "rare": RareShare(text.ranks, replicates=replicates),
        "entropy": MapEntropy(Kind.ENCODER, replicates),
    }


NAMES: dict[str, tuple[str, ...]] = {
    "confidence": ("confidence",),
    "positional": tuple(map(offset_name, OFFSETS)),
    "syntactic": RELATION_NAMES,
    "rare": ("rarest token", "one of two rarest"),
    "entropy": ("entropy",),
}
"""The names of each family's values, along its last axis where it has several per head."""

Values = dict[str, tuple[Tensor, Tensor, Tensor]]
"""By the measure's name: value, low, high, each [layer, head]."""


def by_name(made: Mapping[str, HeadMeasure]) -> Values:
    """Every measure's values with their bootstrap intervals over sentences."""
    found = {}
    for family, names in NAMES.items():
        sums = made[family].sums()
        value = sums.ratio()
        each = [value, *(sums.interval() if made[family].replicates else (value, value))]
        if len(names) == 1:
            each = [values[..., None] for values in each]
        found |= {name: tuple(values[..., at] for values in each) for at, name in enumerate(names)}
    return found


Alter = Callable[[Tensor], Tensor]
"""A fault: other weights in place of those of one layer, [batch head query key]."""


def measured(
    text: Text,
    seed: int,
    make: Callable[[Text], dict[str, HeadMeasure]] = measures,
    alter: Alter = lambda weights: weights,
) -> dict[str, HeadMeasure]:
    """The planted heads, in the order of HEADS, with the noises of NOISES as layers."""
    made = make(text)
    for batch in text.batches:
        clean = [head.weights(batch, text) for head in HEADS]
        layers = [
            [planted.with_noise(batch, weights, noise, seed * len(HEADS) + number)
             for number, weights in enumerate(clean)]
            for noise in NOISES
        ]  # fmt: skip
        tape = planted.recording(*layers)
        shared = Shared({at: [alter(each) for each in layer] for at, layer in tape.items()})
        for measure in made.values():
            measure.update(shared, batch)
    return made


Known = dict[tuple[str, float, str], Expectation]
"""By head, noise and measure."""


def expectations(text: Text) -> Known:
    """What every planted head must give under every measure."""
    comparisons = len(HEADS) * len(NOISES[1:]) * len(COUNTS)
    known = {}
    for head in HEADS:
        looking = [Looking(each, tuple(head.rows(each))) for each in text.sentences]
        for name, count in COUNTS.items():
            trials = Counter(trial for each in looking for trial in count(each))
            for noise in NOISES:
                known[head.name, noise, name] = expected.expectation(trials, noise, comparisons)
    return known


def planted_rows(known: Known, values: Values) -> Iterator[dict[str, object]]:
    """One row per head, noise and measure: the value, its interval, and the known answer."""
    for number, head in enumerate(HEADS):
        for (layer, noise), name in product(enumerate(NOISES), COUNTS):
            must = known[head.name, noise, name]
            if must.count:
                value, low, high = (float(each[layer, number]) for each in values[name])
                yield {
                    "head": head.name, "noise": noise, "measure": name,
                    "own": name == head.measure, "value": value, "low": low, "high": high,
                    "expected": must.mean, "allowed": must.allowed,
                    "found": abs(value - must.mean) <= must.allowed + ROUNDING,
                    "covered": low - ROUNDING <= must.mean <= high + ROUNDING,
                    "count": must.count,
                }  # fmt: skip


def _first_pieces(text: Text) -> dict[str, HeadMeasure]:
    first = SyntacticAccuracy(text.trees, PieceRule.FIRST, replicates=0)
    return measures(text, 0) | {"syntactic": first}


def _eos_counted(text: Text) -> dict[str, HeadMeasure]:
    counted = Counting(eos_keys=EosKeys.COUNTED)
    return measures(text, 0) | {"confidence": Confidence(Kind.ENCODER, counted, replicates=0)}


FAULTS: dict[str, tuple[Callable[[Text], dict[str, HeadMeasure]], Alter]] = {
    "queries and keys exchanged": (partial(measures, replicates=0), lambda each: each.mT),
    "keys off by one": (partial(measures, replicates=0), lambda each: each.roll(1, dims=-1)),
    "heads in another order": (partial(measures, replicates=0), lambda each: each.roll(1, dims=1)),
    "EOS counted as a key": (_eos_counted, lambda each: each),
    "first piece for the word": (_first_pieces, lambda each: each),
}
"""Faults that a measure could have, each of which must be seen."""


def fault_rows(text: Text, known: Known, seed: int) -> Iterator[dict[str, object]]:
    """How many values leave their known answers when the measures have a fault."""
    for fault, (make, alter) in FAULTS.items():
        rows = list(planted_rows(known, by_name(measured(text, seed, make, alter))))
        wrong = [row for row in rows if not row["found"]]
        yield {
            "fault": fault, "values": len(rows), "wrong": len(wrong),
            "wrong_without_noise": sum(row["noise"] == 0 for row in wrong),
        }  # fmt: skip


def offset_accuracy(text: Text) -> Float[Tensor, " column"]:
    """The best fixed offset's accuracy on all sentences: the baseline of syntactic heads."""
    offsets = OffsetShare(text.trees, replicates=1)
    for batch in text.batches:
        offsets.update({}, batch)
    return offset_baseline(offsets.sums(), Selection.EVERYTHING).accuracy


def role_rows(
    made: Mapping[str, HeadMeasure], baseline: Float[Tensor, " column"]
) -> Iterator[dict[str, object]]:
    """Every role that a planted head is given, by the thresholds of the book."""
    positional, syntactic, rare = (
        made[name].compute() for name in ("positional", "syntactic", "rare")
    )
    for role in roles(positional, torch.tensor(OFFSETS), syntactic, baseline, rare):
        yield {
            "head": HEADS[role.head].name, "noise": NOISES[role.layer], "role": str(role.role),
            "detail": role.detail, "score": role.score, "threshold": role.threshold,
        }  # fmt: skip


def random_rows(
    text: Text, baseline: Float[Tensor, " column"], heads: int
) -> Iterator[dict[str, object]]:
    """The best of so many heads of random weights under every measure, beside the threshold.

    Chosen and scored on all sentences, which is the hardest test: a gain by luck counts.
    """
    made = measures(text, 0)
    for batch in text.batches:
        tape = Shared(random_heads(batch, Kind.ENCODER, heads=heads))
        for measure in made.values():
            measure.update(tape, batch)
    marks = Thresholds()
    thresholds = {
        **{offset_name(offset): marks.positional for offset in OFFSETS},
        **dict(zip(RELATION_NAMES, (baseline + marks.syntactic_margin).tolist(), strict=True)),
        "one of two rarest": marks.rare,
    }
    for name, (value, *_) in by_name(made).items():
        if not value.isnan().all():
            yield {
                "measure": name, "heads": heads, "best": float(value.max()),
                "mean": float(value.mean()), "threshold": thresholds.get(name, math.nan),
            }  # fmt: skip


def _best(random: pd.DataFrame, *measures: str) -> float:
    return float(random.loc[random["measure"].isin(measures), "best"].max())
