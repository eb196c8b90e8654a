"""Trainings of page 36: every regulariser at every strength, the chosen ones with more seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from headbook.artefacts.catalogue import turn_of
from headbook.artefacts.language import DroppingRun, LanguageModel, LanguageRun, given
from headbook.artefacts.model import ModelRun, TrainedModel
from headbook.artefacts.pruned import primary_translations
from headbook.artefacts.regularised import DroppingModelRun, RegularisedLanguageRun, RegularisedRun
from headbook.corpora.batches import EncodedPair
from headbook.models.drop_head import DropHeadSchedule
from headbook.models.transformer import Transformer
from headbook.runs.store import Ingredients, Store
from headbook.training.config import TrainingConfig
from headbook.training.paired import Statistics, statistics
from headbook.training.regularising import Regulariser, Term
from headbook.training.scoring import Casing, Losses, losses, nats
from headbook.types import Kind, UserError

NONE = "no regulariser"
CONSTANT, V = "DropHead, one rate", "DropHead, V"


class Task(StrEnum):
    """The task of a training; the value is its name in tables."""

    TRANSLATION = "translation"
    LANGUAGE = "language model"


KINDS = {Task.TRANSLATION: tuple(Kind), Task.LANGUAGE: (Kind.DECODER,)}
"""The kinds of attention of each task; all are regularised."""


@dataclass(frozen=True)
class Candidate:
    """One training: `strength` is λ, or DropHead's rate, or 0 where there is neither."""

    task: Task
    variant: str
    strength: float
    run: ModelRun | LanguageRun

    @property
    def labels(self) -> dict[str, object]:
        """The columns that tell this model's rows from all others'."""
        return {"task": str(self.task), "variant": self.variant, "strength": self.strength,
                "seed": self.run.training.seed}  # fmt: skip

    @property
    def label(self) -> str:
        return f"{self.task}, {self.variant} {self.strength:g}, seed {self.run.training.seed}"

    @property
    def training(self) -> TrainingConfig:
        return self.run.training

    def ingredients(self) -> Ingredients:
        return self.run.ingredients()

    def trained(self, store: Store, deadline: float = math.inf) -> TrainedModel | LanguageModel:
        """From the store, or trained now. OutOfTimeError at the deadline."""
        return self.run.trained(store, deadline)

    def with_seed(self, seed: int) -> "Candidate":
        return replace(self, run=self.run.with_seed(seed))


@dataclass(frozen=True)
class Regularising:
    """Both base models, the candidates for λ, and the rates of DropHead.

    Everything is trained with the seed of the base models; a base, and the chosen strength of each
    term, with `seeds` seeds in all. UserError for an empty grid, a strength twice, or no seed.
    """

    translation: ModelRun
    language: LanguageRun
    strengths: tuple[float, ...]
    rates: tuple[float, ...] = (0.1,)
    terms: tuple[Term, ...] = tuple(Term)
    seeds: int = 3

    def __post_init__(self) -> None:
        for name in ("strengths", "rates", "terms"):
            given = getattr(self, name)
            if not given or len(set(given)) < len(given):
                raise UserError(f"{name} of regularisers are {given}; give each once, at least 1")
        if min(*self.strengths, *self.rates, 1.0) <= 0:
            raise UserError("a regulariser of strength 0 is the base itself; give more than 0")
        if self.seeds < 1:
            raise UserError(f"seeds is {self.seeds}; a regulariser is trained with at least 1")

    def further_seeds(self, task: Task) -> range:
        """The seeds after the one that λ is chosen with."""
        first = self.base(task).run.training.seed
        return range(first + 1, first + self.seeds)

    @property
    def trainings(self) -> int:
        """Number of trainings of each task."""
        variants = len(self.terms) + 2
        grid = len(self.terms) * len(self.strengths) + 2 * len(self.rates)
        return 1 + grid + (self.seeds - 1) * (1 + variants)

    def base(self, task: Task) -> Candidate:
        run = self.translation if task is Task.TRANSLATION else self.language
        return Candidate(task, NONE, 0.0, run)

    def grid(self, task: Task) -> tuple[Candidate, ...]:
        """All trainings with the first seed, the base first."""
        return (self.base(task), *self.candidates(task))

    def further(self, task: Task, chosen: Sequence["Made"]) -> list[Candidate]:
        """The chosen trainings with the further seeds."""
        return [each.asked.with_seed(seed) for seed in self.further_seeds(task) for each in chosen]

    def candidates(self, task: Task) -> tuple[Candidate, ...]:
        """Every term at every λ, and DropHead at every rate on both schedules."""
        base = self.base(task)
        return (
            *(_with_term(base, term, each) for term in self.terms for each in self.strengths),
            *(_dropping(base, name, rate) for name in (CONSTANT, V) for rate in self.rates),
        )


def _with_term(base: Candidate, term: Term, strength: float) -> Candidate:
    regulariser = Regulariser(term, strength, KINDS[base.task])
    kind = RegularisedRun if isinstance(base.run, ModelRun) else RegularisedLanguageRun
    run = kind(**given(base.run), regulariser=regulariser)
    return Candidate(base.task, str(term), strength, run)


def _dropping(base: Candidate, variant: str, rate: float) -> Candidate:
    turn = turn_of(base.run.training) if variant == V else None
    kind = DroppingModelRun if isinstance(base.run, ModelRun) else DroppingRun
    run = kind(**given(base.run), drop_head=DropHeadSchedule(rate, rate, turn))
    return Candidate(base.task, variant, rate, run)


@dataclass(frozen=True, eq=False)
class Made:
    """A trained candidate, read alike for both tasks. Losses are in nats."""

    asked: Candidate
    model: TrainedModel | LanguageModel

    @property
    def folder(self) -> Path:
        return self.model.folder

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return KINDS[self.asked.task]

    @property
    def valid_nats(self) -> float:
        """Cross-entropy a token on validation text, without smoothing, where it is least."""
        return float(self.model.curve["valid_loss_nats"].min())

    def test_losses(self) -> Losses:
        """Loss of each sentence of the first test set, or segment of the test text, in 32 bits."""
        if isinstance(self.model, LanguageModel):
            pairs = self.model.segments(self.model.text.test)
        else:
            pairs = self.model.encode(next(iter(self.model.corpus.tests.values())))
        return losses(self.model.model(), pairs, self.asked.run.training.tokens)

    @property
    def bleu(self) -> float:
        """Cased, on the first test set; NaN of a language model."""
        if isinstance(self.model, LanguageModel):
            return float("nan")
        rows = self.model.bleu
        return float(rows.loc[rows["casing"] == Casing.CASED, "score"].iloc[0])

    @cached_property
    def bleu_statistics(self) -> Statistics | None:
        """Sufficient statistics of its BLEU, one row per sentence; None for a language model."""
        if isinstance(self.model, LanguageModel):
            return None
        references = next(iter(self.model.corpus.tests.values())).target
        return statistics(primary_translations(self.model), references)

    def valid_sample(self, count: int) -> list[EncodedPair]:
        """The first so many pairs of the validation set, or segments of the validation text."""
        if isinstance(self.model, LanguageModel):
            return self.model.segments(self.model.text.valid)[:count]
        return self.model.encode(self.model.corpus.valid.first(count))

    def nats(self, model: Transformer, pairs: Sequence[EncodedPair]) -> float:
        """Cross-entropy a target token of a model of this shape, without padding."""
        return nats(model, pairs, self.asked.run.training.tokens)


def made(candidate: Candidate, store: Store) -> Made:
    """From the store, or trained now."""
    return Made(candidate, candidate.trained(store))


def tuned(found: Sequence[Made]) -> list[Made]:
    """The strength of each variant with the least validation loss; the weaker of equals."""
    best: dict[str, Made] = {}
    for each in sorted(found, key=lambda one: (one.valid_nats, one.asked.strength)):
        best.setdefault(each.asked.variant, each)
    return [each for each in found if best[each.asked.variant] is each]


def trained_all(asked: Regularising, task: Task, store: Store) -> tuple[list[Made], list[Made]]:
    """All models of the first seed; and the chosen ones with all their seeds, the base first."""
    first = [made(each, store) for each in asked.grid(task)]
    chosen = tuned(first)
    return first, chosen + [made(each, store) for each in asked.further(task, chosen)]
