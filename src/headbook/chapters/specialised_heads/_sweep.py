"""Pruning released students: the trainings that page 18 reads, and the results of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch

from headbook.artefacts.distilled import Distilled, DistilledRun, distilled
from headbook.artefacts.released_pruned import (
    Choice,
    ReleasedPruned,
    ReleasedPruning,
    asked_for,
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

ENGLISH = DistilledRun((("ud-ewt/train", 12_000), ("msdocs-fr/train.en", 10_000)))
"""English sentences whose translations the student learns: web text and documentation."""
TEXTS = {"en": ENGLISH, "pt": DistilledRun((("firefox-en-pt", 22_000),))}
"""By source language. No Portuguese text of that size is at hand: translations of the English."""
PENALTIES = (0.004, 0.008, 0.015, 0.03, 0.06, 0.12)
SEEDS = (0, 1, 2)
CONTROLLED = (0.015, 0.06)
"""Values of λ whose gates have controls: a third of the heads stay, and an eighth."""
OTHER_SEED = 1
"""Of controls that need one seed alone, and of the sweeps in `FEWER`."""
FEWER = (0.004, 0.015, 0.06)
"""Values of λ for heads of cross-attention, and for the student of the other direction."""
WIDEST = ("firefox-en-pt", Kind.ENCODER)
"""The sweep with all seeds and controls."""
WHOLE, GATES, FROZEN = "whole", "gates", "gates, weights frozen"
RANDOM, IMPORTANCE = "random", "importance"
LEARNED = (GATES, FROZEN)
UPDATES, LONGER = 600, 720
"""Of a training, and a fifth more: whether BLEU still moves with more of them."""
LONGER_PENALTY = 0.015


Labels = tuple[str, float, int, int, int]
"""Way, λ, seed, draw and updates of a training."""


class NotStoredError(Exception):
    """The store lacks a training, and none is to be run."""


@dataclass(frozen=True)
class Point:
    """One training: how its heads were chosen, and the trained model."""

    way: str
    penalty: float
    seed: int
    draw: int
    made: ReleasedPruned
    heads: tuple[HeadId, ...]
    """All heads of the gated kind."""
    updates: int = UPDATES

    @property
    def labels(self) -> dict[str, object]:
        """The columns that name it; `penalty` of a control is that of the gates it is beside."""
        return {"way": self.way, "penalty": self.penalty, "seed": self.seed, "draw": self.draw}

    @property
    def kept(self) -> int:
        return len(self.heads) - len(self.made.closed)


def training(seed: int, updates: int = UPDATES) -> TrainingConfig:
    """Updates of 2,000 padded tokens; six hundred are about two passes over the text."""
    return TrainingConfig(
        updates=updates, tokens=2_000, label_smoothing=0.0, validate_every=100,
        first_snapshot=10**6, seed=seed,
    )  # fmt: skip


class Sweep:
    """The trainings of one student whose heads of one kind are gated, from the store or run now.

    With `train` False only those that the store has.
    """

    def __init__(
        self, name: str, store: Store, kind: Kind = Kind.ENCODER, *, train: bool = True
    ) -> None:
        self.name, self.store, self.kind, self.train = name, store, kind, train

    @cached_property
    def text(self) -> Distilled:
        """Sentences in the student's source language with its translations."""
        model = self.model()
        run = TEXTS[model.languages[0]]
        read = None if run is ENGLISH else self._read
        found = distilled(model, run, self.store, read, stored=not self.train)
        if found is None:
            raise NotStoredError
        return found

    def _read(self, name: str) -> list[str]:
        """Text in another language than English: the translations of the student that gives it."""
        other = Sweep(name, self.store, train=self.train)
        giver = other.model()
        found = [giver.text(target[:-1]) for _, target in other.text.pairs]
        return list(dict.fromkeys(found))

    def model(self) -> FirefoxModel:
        """As released, loaded anew."""
        return load(self.name)

    def points(self) -> Iterator[Point]:
        """The trainings of the plan, in its order."""
        try:
            self.text  # noqa: B018 (read once: without it there is no training at all)
        except NotStoredError:
            return
        for make in self.plan.values():
            try:
                yield make()
            except NotStoredError:
                continue

    @cached_property
    def plan(self) -> dict[Labels, Callable[[], Point]]:
        """Gates of every seed with the whole model, controls, trainings a fifth longer.

        Random heads are drawn anew with every seed of the gates that they stand beside.
        """
        widest = (self.name, self.kind) == WIDEST
        seeds, penalties = (SEEDS, PENALTIES) if widest else ((OTHER_SEED,), FEWER)
        controlled = CONTROLLED if widest else (LONGER_PENALTY,)
        found: dict[Labels, Callable[[], Point]] = {}
        for seed in seeds:
            found[WHOLE, 0.0, seed, 0, UPDATES] = partial(self.whole, seed)
            for each in penalties:
                found[GATES, each, seed, 0, UPDATES] = partial(self.learned, each, seed)
        for seed in seeds:
            for each in controlled:
                found[RANDOM, each, seed, seed, UPDATES] = partial(self.drawn, each, seed)
        if widest:
            for each in controlled:
                labels = each, OTHER_SEED, 0, UPDATES
                found[IMPORTANCE, *labels] = partial(self.by_importance, each, OTHER_SEED)
                found[FROZEN, *labels] = partial(self.learned, each, OTHER_SEED, frozen=True)
            for way, make in ((WHOLE, self.whole), (GATES, partial(self.learned, LONGER_PENALTY)),
                              (RANDOM, partial(self.drawn, LONGER_PENALTY))):  # fmt: skip
                penalty = 0.0 if way == WHOLE else LONGER_PENALTY
                found[way, penalty, 0, 0, LONGER] = partial(make, updates=LONGER)
        return found

    def whole(self, seed: int = 0, updates: int = UPDATES) -> Point:
        """No head closed, trained as long."""
        return self._fixed(WHOLE, (), 0.0, 0, seed, updates)

    def learned(
        self, penalty: float, seed: int = 0, *, frozen: bool = False, updates: int = UPDATES
    ) -> Point:
        """Heads chosen by learned gates."""
        run = ReleasedPruning(
            Choice.GATES, training(seed, updates), (self.kind,), penalty, frozen=frozen
        )
        return self._point(FROZEN if frozen else GATES, penalty, seed, 0, run)

    def by_importance(self, penalty: float, seed: int = 0) -> Point:
        """As many heads as the gates keep, the most important ones."""
        closed = first_of(self._by_importance, self._closed_at(penalty, seed))
        return self._fixed(IMPORTANCE, closed, penalty, 0, seed)

    def drawn(self, penalty: float, seed: int = 0, updates: int = UPDATES) -> Point:
        """As many heads as the gates of this seed keep, at random, whichever layer they are of."""
        closed = first_of(random_order(self.heads, seed), self._closed_at(penalty, seed))
        return self._fixed(RANDOM, closed, penalty, seed, seed, updates)

    def _closed_at(self, penalty: float, seed: int) -> int:
        return len(self.learned(penalty, seed).made.closed)

    def _fixed(
        self, way: str, closed: tuple[HeadId, ...], penalty: float, draw: int, seed: int,
        updates: int = UPDATES,
    ) -> Point:  # fmt: skip
        run = ReleasedPruning(Choice.FIXED, training(seed, updates), closed=tuple(sorted(closed)))
        return self._point(way, penalty, seed, draw, run)

    def _point(self, way: str, penalty: float, seed: int, draw: int, run: ReleasedPruning) -> Point:
        if not self.train and not self.store.has(asked_for(self.text, run)):
            raise NotStoredError
        made = released_pruned(self.model, self.text, run, self.store)
        return Point(way, penalty, seed, draw, made, self.heads, run.training.updates)

    @cached_property
    def heads(self) -> tuple[HeadId, ...]:
        """Heads of the gated kind."""
        return tuple(h for h in all_heads(self.model().network) if h.kind is self.kind)

    @cached_property
    def _by_importance(self) -> tuple[HeadId, ...]:
        """By gradient on held pairs before anything is closed (Michel et al. 2019, equation 2)."""
        model = self.model()
        sources, targets = zip(*held_pairs(self.text, 400), strict=True)
        scores = by_gradient(model, batches_of(sources, targets, 2_000))
        mine = torch.tensor([head.kind is self.kind for head in all_heads(model.network)])
        layers = 1 + max(head.layer for head in self.heads)
        return ascending({self.kind: l2_normalised(scores[mine].unflatten(0, (layers, -1)))})


def results(points: Sequence[Point]) -> pd.DataFrame:
    """One row per training: heads kept, loss, share of gates that are decided, BLEU, and BLEU minus
    that of the whole model trained as long with the same seed, each with its interval over
    sentences; empty where the whole model of that seed has not been trained."""
    whole = {
        (each.seed, each.updates): each.made.statistics for each in points if each.way == WHOLE
    }
    rows = []
    for each in points:
        found = each.made.statistics
        low, high = percentile_interval(resampled(found))
        row = {**each.labels, "updates": each.updates, "kept": each.kept, "of": len(each.heads),
               "loss": each.made.loss, "bleu": corpus_bleu(found), "bleu_low": low,
               "bleu_high": high, "difference": np.nan, "difference_low": np.nan,
               "difference_high": np.nan, "saturated": np.nan}  # fmt: skip
        if (beside := whole.get((each.seed, each.updates))) is not None:
            test = paired(found, beside)
            row |= {"difference": test.difference, "difference_low": test.low,
                    "difference_high": test.high}  # fmt: skip
        if each.way in LEARNED:
            row["saturated"] = each.made.curve["saturated_share"].iloc[-1]
        rows.append(row)
    return pd.DataFrame(rows)


def kept_heads(points: Sequence[Point]) -> pd.DataFrame:
    """One row per training and head of the gated kind: whether it is kept, and the log α of a
    learned gate."""
    rows = []
    for each in points:
        closed = set(each.made.closed)
        gates = {(kind, layer, head): value for kind, layer, head, value in each.made.gates}
        for head in each.heads:
            rows.append({**each.labels, "updates": each.updates, "layer": head.layer + 1,
                         "head": head.head + 1, "kept": head not in closed,
                         "log_alpha": gates.get((str(head.kind), head.layer, head.head), np.nan),
                         })  # fmt: skip
    return pd.DataFrame(rows)
