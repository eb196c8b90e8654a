"""Trainings of page 27: a base model, and changes that may make its heads specialise."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from headbook.artefacts.encoders import EncoderRun, Objective, encoder_run
from headbook.artefacts.model import ModelRun, Size
from headbook.types import UserError

FACTOR = 4
"""Times as many updates; the batch of as many updates on as much text is as many times smaller."""


class Change(StrEnum):
    """A change of the base model; the value is its name in tables."""

    NONE = "as it is"
    UPDATES = f"{FACTOR} times the updates"
    BATCHES = f"{FACTOR} times the updates, small batches"
    PAIRS = "fewer pairs"
    WIDTH = "twice the width"
    OBJECTIVE = "hidden words"
    """The encoder alone, which learns to predict hidden tokens of the source side."""


@dataclass(frozen=True)
class Specialising:
    """Base model, reduced number of training pairs, seeds.

    UserError for no pair, no seed, or a batch too small to be divided.
    """

    model: ModelRun
    pairs: int
    seeds: int = 1

    def __post_init__(self) -> None:
        if min(self.pairs, self.seeds) < 1:
            raise UserError(f"pairs is {self.pairs}, seeds {self.seeds}; give at least 1 of each")
        if self.model.training.tokens < FACTOR:
            raise UserError(f"a batch of {self.model.training.tokens} tokens cannot be divided")

    def runs(self) -> Iterator[tuple[Change, ModelRun | EncoderRun]]:
        """Every change with the first seed, then with the next one."""
        first = self.model.training.seed
        for seed in range(first, first + self.seeds):
            for change in Change:
                yield change, self.changed(change).with_seed(seed)

    def translation_models(self) -> list[ModelRun]:
        """The runs of all changes but the objective's."""
        return [run for _, run in self.runs() if isinstance(run, ModelRun)]

    def masked_models(self) -> list[EncoderRun]:
        """The runs of another objective."""
        return [run for _, run in self.runs() if isinstance(run, EncoderRun)]

    def changed(self, change: Change) -> ModelRun | EncoderRun:
        """The base model with that change alone; label smoothing goes with the objective."""
        run = self.model
        if change is Change.OBJECTIVE:
            return encoder_run(run, Objective.MASKED, run.training.seed)
        if change is Change.PAIRS:
            return replace(run, pairs=self.pairs)
        if change is Change.WIDTH:
            return replace(run, size=_twice_as_wide(run.size))
        training = run.training
        if change in (Change.UPDATES, Change.BATCHES):
            training = replace(training, updates=FACTOR * training.updates)
        if change is Change.BATCHES:
            training = replace(training, tokens=training.tokens // FACTOR)
        return replace(run, training=training)


def _twice_as_wide(size: Size) -> Size:
    """With as many heads, so that these are twice as wide."""
    return replace(size, width=2 * size.width, feed_forward=2 * size.feed_forward)
