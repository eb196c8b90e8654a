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
from torch import Tensor

from headbook.chapters.anatomy import _expected as expected
from headbook.chapters.anatomy._expected import Expectation, Looking, Row, Sentence, Trial
from headbook.chapters.anatomy._sample import Text, sample
from headbook.corpora.batches import Batch
from headbook.heads import planted
from headbook.heads.arcs import PieceRule
from headbook.heads.confidence import Confidence
from headbook.heads.diversity_maps import MapEntropy
from headbook.heads.measure import REPLICATES, HeadMeasure, Selection
from headbook.heads.offset_baseline import OffsetShare, offset_baseline
from headbook.heads.positional import REACH, PositionalShare
from headbook.heads.random_head import random_heads
from headbook.heads.rare import OUTSIDE_TOP, RareShare
from headbook.heads.recording import Shared
from headbook.heads.roles import Thresholds
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tokens import Counting, EosKeys
from headbook.runs.store import Store
from headbook.trees import RELATION_DIRECTIONS, Direction
from headbook.types import Kind

NUMBER = 2
TITLE = "Do the measures work?"
WORK = "headbook"
KEYS = ("sentences", "seed", "head", "noise", "measure")

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
    place = {0: "own token", 1: "neighbour"}.get(abs(offset), "other offset")
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


def compute(parameters: Parameters, store: Store) -> dict[str, pd.DataFrame]:
    """Every planted head under every measure, measures with faults, heads of random weights."""
    text = sample(parameters.sentences)
    labels = {"sentences": len(text.sentences), "seed": parameters.seed}
    known = expectations(text)
    rows = planted_rows(known, measured(text, parameters.seed))
    found = {
        "planted": pd.DataFrame(rows),
        "faults": pd.DataFrame(fault_rows(text, known, parameters.seed)),
        "random_heads": pd.DataFrame(random_rows(text, parameters.random_heads)),
    }
    return {name: table.assign(**labels) for name, table in found.items()}


def facts(tables: dict[str, pd.DataFrame]) -> dict[str, str | float]:
    """The numbers of the page's prose."""
    every, random = tables["planted"], tables["random_heads"]
    noisy, own = every[every["noise"] > 0], every[every["own"] & (every["head"] != "uniform")]
    role = random.dropna(subset="threshold")
    return {
        "heads": every["head"].nunique(),
        "measures": every["measure"].nunique(),
        "values": f"{len(every):,}",
        "found": f"{int(every['found'].sum()):,}",
        "exact": f"{int((every['noise'] == 0).sum()):,}",
        "covered": f"{100 * noisy['covered'].mean():.0f}",
        "largest_gap": f"{(own['value'] - own['expected']).abs().max():.3f}",
        "faults": len(tables["faults"]),
        "faults_seen": int((tables["faults"]["wrong"] > 0).sum()),
        "random_heads": int(random["heads"].iloc[0]),
        "random_above": int((role["best"] >= role["threshold"]).sum()),
        "random_neighbour": f"{_best(random, 'neighbour'):.2f}",
        "random_object": f"{_best(random, 'dobj'):.2f}",
        "random_rare": f"{_best(random, 'one of two rarest'):.2f}",
        "sentences": int(every["sentences"].iloc[0]),
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
) -> Values:
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
    return by_name(made)


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
        rows = list(planted_rows(known, measured(text, seed, make, alter)))
        wrong = [row for row in rows if not row["found"]]
        yield {
            "fault": fault, "values": len(rows), "wrong": len(wrong),
            "wrong_without_noise": sum(row["noise"] == 0 for row in wrong),
        }  # fmt: skip


def random_rows(text: Text, heads: int) -> Iterator[dict[str, object]]:
    """The best of so many heads of random weights under every measure, beside the role's threshold.

    Best and baseline are chosen and scored on all sentences, which is the hardest test: a gain by
    luck counts.
    """
    made, offsets = measures(text, 0), OffsetShare(text.trees, replicates=1)
    for batch in text.batches:
        tape = Shared(random_heads(batch, Kind.ENCODER, heads=heads))
        for measure in (*made.values(), offsets):
            measure.update(tape, batch)
    baseline = offset_baseline(offsets.sums(), Selection.EVERYTHING).accuracy
    marks = Thresholds()
    syntactic = (baseline + marks.syntactic_margin).tolist()
    thresholds = {
        **{offset_name(offset): marks.positional for offset in OFFSETS},
        **dict(zip(RELATION_NAMES, syntactic, strict=True)),
        "one of two rarest": marks.rare,
    }
    for name, (value, *_) in by_name(made).items():
        if not value.isnan().all():
            yield {
                "measure": name, "heads": heads, "best": float(value.max()),
                "mean": float(value.mean()), "threshold": thresholds.get(name, math.nan),
            }  # fmt: skip


def _best(random: pd.DataFrame, begins: str) -> float:
    return float(random.loc[random["measure"].str.startswith(begins), "best"].max())
