"""Planted heads, the measures they go through, and faults that measures could have."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from headbook.chapters.anatomy import _expected as expected
from headbook.chapters.anatomy._expected import Expectation, Looking, Row, Sentence, Trial
from headbook.chapters.anatomy._sample import Text
from headbook.corpora.batches import Batch
from headbook.heads import planted
from headbook.heads.arcs import PieceRule
from headbook.heads.confidence import Confidence
from headbook.heads.diversity_maps import MapEntropy
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.positional import REACH, Place, PositionalShare, place_of
from headbook.heads.rare import OUTSIDE_TOP, RareShare
from headbook.heads.recording import Shared
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tokens import Counting, EosKeys
from headbook.trees import RELATION_DIRECTIONS, Direction
from headbook.types import Kind

NOISES = (0.0, 0.1, 0.25, 0.5)
ROUNDING = 1e-6
"""Weights have 32 bits."""
OBJECT, VERB = (RELATION_DIRECTIONS.index(("dobj", direction)) for direction in Direction)
RELATION_NAMES = tuple(
    f"{relation}, {way.replace('_to_', ' → ')}" for relation, way in RELATION_DIRECTIONS
)


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


Case = tuple[Callable[[Text], dict[str, HeadMeasure]], Alter]
"""The measures to make, and a fault in what they are given."""


def measured(text: Text, seed: int, cases: Mapping[str, Case]) -> dict[str, dict[str, HeadMeasure]]:
    """The planted heads, in the order of HEADS, with the noises of NOISES as layers, per case.

    Their weights are drawn once for all cases.
    """
    made = {name: make(text) for name, (make, _) in cases.items()}
    for batch in text.batches:
        clean = [head.weights(batch, text) for head in HEADS]
        layers = [
            [planted.with_noise(batch, weights, noise, seed * len(HEADS) + number)
             for number, weights in enumerate(clean)]
            for noise in NOISES
        ]  # fmt: skip
        tape = planted.recording(*layers)
        for name, (_, alter) in cases.items():
            shared = Shared({at: [alter(each) for each in layer] for at, layer in tape.items()})
            for measure in made[name].values():
                measure.update(shared, batch)
    return made


Known = dict[tuple[str, float, str], Expectation]
"""By head, noise and measure."""


def expectations(text: Text) -> Known:
    """Known answer of every planted head under every measure."""
    comparisons = len(HEADS) * len(NOISES[1:]) * len(COUNTS)
    known = {}
    for head in HEADS:
        looking = [Looking(each, tuple(head.rows(each))) for each in text.sentences]
        for name, count in COUNTS.items():
            trials = Counter(trial for each in looking for trial in count(each))
            for noise in NOISES:
                known[head.name, noise, name] = expected.expectation(trials, noise, comparisons)
    return known


def _first_pieces(text: Text) -> dict[str, HeadMeasure]:
    first = SyntacticAccuracy(text.trees, PieceRule.FIRST, replicates=0)
    return measures(text, 0) | {"syntactic": first}


def _eos_counted(text: Text) -> dict[str, HeadMeasure]:
    counted = Counting(eos_keys=EosKeys.COUNTED)
    return measures(text, 0) | {"confidence": Confidence(Kind.ENCODER, counted, replicates=0)}


RIGHT: dict[str, Case] = {"right": (measures, lambda weights: weights)}
FAULTS: dict[str, Case] = {
    "queries and keys exchanged": (partial(measures, replicates=0), lambda each: each.mT),
    "keys off by one": (partial(measures, replicates=0), lambda each: each.roll(1, dims=-1)),
    "heads in another order": (partial(measures, replicates=0), lambda each: each.roll(1, dims=1)),
    "EOS counted as a key": (_eos_counted, lambda each: each),
    "first piece for the word": (_first_pieces, lambda each: each),
}
"""Faults that a measure could have, each of which must be seen."""
