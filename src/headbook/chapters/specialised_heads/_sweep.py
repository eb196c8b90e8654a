"""Pruning released students: the trainings that page 18 reads, and the results of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from headbook.artefacts.distilled import DistilledRun, distilled
from headbook.artefacts.released_pruned import (
    Choice,
    ReleasedPruned,
    ReleasedPruning,
    held_pairs,
    released_pruned,
)
from headbook.heads.importance import l2_normalised
from headbook.looking.importance import by_gradient
from headbook.looking.load import load
from headbook.models.gates import all_heads
from headbook.pruning.ranking import ascending, first_of, random_order
from headbook.released.firefox import FirefoxModel, batches_of
from headbook.runs.store import Store
from headbook.statistics import percentile_interval
from headbook.training.config import TrainingConfig
from headbook.training.paired import corpus_bleu, paired, resampled
from headbook.types import HeadId, Kind

TEXTS = DistilledRun((("ud-ewt/train", 12_000), ("msdocs-fr/train.en", 10_000)))
"""English sentences whose translations the student learns: web text and documentation."""
PENALTIES = (0.004, 0.008, 0.015, 0.03, 0.06, 0.12)
SEEDS = (0, 1, 2)
DRAWS = (0, 1, 2)
"""Random sets of heads per count."""
WHOLE, GATES, FROZEN = "whole", "gates", "gates, weights frozen"
RANDOM, IMPORTANCE = "random", "importance"
LAYERS, HEADS = 6, 48


@dataclass(frozen=True)
class Point:
    """One training: how its heads were chosen, and the trained model."""

    way: str
    penalty: float
    seed: int
    draw: int
    made: ReleasedPruned

    @property
    def labels(self) -> dict[str, object]:
        """The columns that name it; `penalty` of a control is that of the gates it is beside."""
        return {"way": self.way, "penalty": self.penalty, "seed": self.seed, "draw": self.draw}

    @property
    def kept(self) -> int:
        return HEADS - len(self.made.closed)


def training(seed: int) -> TrainingConfig:
    """Six hundred updates of 2,000 padded tokens: about two passes over the text."""
    return TrainingConfig(
        updates=600, tokens=2_000, label_smoothing=0.0, validate_every=100,
        first_snapshot=10**6, seed=seed,
    )  # fmt: skip


class Sweep:
    """The trainings of one student, from the store or run now (some minutes each on one core)."""

    def __init__(self, name: str, store: Store) -> None:
        self.name, self.store = name, store
        self.text = distilled(self.model(), TEXTS, store)

    def model(self) -> FirefoxModel:
        """As released, loaded anew."""
        return load(self.name)

    def points(self, further: bool = True) -> Iterator[Point]:
        """Gates of one seed, their controls, then further seeds and frozen weights."""
        yield self._fixed(WHOLE, (), 0.0, 0)
        first = [self._learned(penalty, 0) for penalty in PENALTIES]
        yield from first
        for point in first:
            yield self._fixed(IMPORTANCE, self._least_important(point), point.penalty, 0)
        for draw in DRAWS:
            yield from (self._fixed(RANDOM, self._drawn(each, draw), each.penalty, draw)
                        for each in first)  # fmt: skip
        if further:
            yield from (self._learned(penalty, 0, frozen=True) for penalty in PENALTIES)
            for seed in SEEDS[1:]:
                yield self._fixed(WHOLE, (), 0.0, 0, seed)
                yield from (self._learned(penalty, seed) for penalty in PENALTIES)

    def _learned(self, penalty: float, seed: int, frozen: bool = False) -> Point:
        run = ReleasedPruning(Choice.GATES, training(seed), penalty=penalty, frozen=frozen)
        return Point(FROZEN if frozen else GATES, penalty, seed, 0, self._made(run))

    def _fixed(
        self, way: str, closed: tuple[HeadId, ...], penalty: float, draw: int, seed: int = 0
    ) -> Point:
        run = ReleasedPruning(Choice.FIXED, training(seed), closed=tuple(sorted(closed)))
        return Point(way, penalty, seed, draw, self._made(run))

    def _made(self, run: ReleasedPruning) -> ReleasedPruned:
        return released_pruned(self.model, self.text, run, self.store)

    def _drawn(self, point: Point, draw: int) -> tuple[HeadId, ...]:
        return first_of(random_order(self._encoder_heads, draw), HEADS - point.kept)

    @cached_property
    def _encoder_heads(self) -> list[HeadId]:
        return [head for head in all_heads(self.model().network) if head.kind is Kind.ENCODER]

    def _least_important(self, point: Point) -> tuple[HeadId, ...]:
        return first_of(self._by_importance, HEADS - point.kept)

    @cached_property
    def _by_importance(self) -> tuple[HeadId, ...]:
        """By gradient on held pairs before anything is closed (Michel et al. 2019, equation 2)."""
        model = self.model()
        sources, targets = zip(*held_pairs(self.text, 400), strict=True)
        scores = by_gradient(model, batches_of(sources, targets, 2_000))[:HEADS]
        return ascending({Kind.ENCODER: l2_normalised(scores.unflatten(0, (LAYERS, -1)))})


def results(points: list[Point]) -> pd.DataFrame:
    """One row per training: heads kept in all and per layer, loss, BLEU, and BLEU minus that of
    the whole model trained as long with the same seed, each with its interval over sentences."""
    whole = {each.seed: each.made.statistics for each in points if each.way == WHOLE}
    rows = []
    for each in points:
        found = each.made.statistics
        low, high = percentile_interval(resampled(found))
        beside = paired(found, whole[each.seed])
        layers = [sum(head.layer == layer for head in each.made.closed) for layer in range(LAYERS)]
        of_layer = {f"layer_{n}": HEADS // LAYERS - shut for n, shut in enumerate(layers, start=1)}
        rows.append({**each.labels, "kept": each.kept, **of_layer, "loss": each.made.loss,
                     "bleu": corpus_bleu(found), "bleu_low": low, "bleu_high": high,
                     "difference": beside.difference, "difference_low": beside.low,
                     "difference_high": beside.high})  # fmt: skip
    return pd.DataFrame(rows)


def kept_heads(points: list[Point]) -> pd.DataFrame:
    """One row per training with learned gates and head: whether it is kept, and its log α."""
    rows = []
    for each in points:
        if each.way not in (GATES, FROZEN):
            continue
        closed = set(each.made.closed)
        for kind, layer, head, value in each.made.gates:
            kept = HeadId(Kind(kind), layer, head) not in closed
            rows.append({**each.labels, "layer": layer + 1, "head": head + 1, "kept": kept,
                         "log_alpha": value})  # fmt: skip
    return pd.DataFrame(rows)
