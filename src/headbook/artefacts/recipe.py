"""One description of every model that this package trains, whatever its task.

A recipe becomes the run of a stage (`Recipe.run`), whose fields are the store's key material; it
says nothing that the run does not.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from headbook.artefacts.encoders import EncoderRun, Objective, encoder_run
from headbook.artefacts.language import (
    OFTEN,
    DelightRun,
    DroppingRun,
    LanguageRun,
    Setting,
    SharingRun,
)
from headbook.artefacts.model import BEAM, ModelRun, Size
from headbook.artefacts.trained import Trained
from headbook.artefacts.watching import Watched
from headbook.models.decoding import Search
from headbook.models.drop_head import DropHeadSchedule
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.types import UserError

SIZES = MappingProxyType(
    {
        "smoke": Size(layers=2, width=16, feed_forward=32, heads=2),
        "tiny": Size(layers=3, width=64, feed_forward=256, heads=8),
        "narrow": Size(layers=6, width=64, feed_forward=256, heads=8),
        "small": Size(layers=6, width=128, feed_forward=512, heads=8),
        "medium": Size(layers=6, width=256, feed_forward=1024, heads=8),
        "paper": Size(layers=6, width=512, feed_forward=2048, heads=8),
    }
)
"""Sizes by name, as `--size` and the catalogue take them."""

Run = ModelRun | LanguageRun | EncoderRun


class Task(StrEnum):
    """The objective a model is trained for."""

    TRANSLATION = "translation"
    LANGUAGE = "language"
    """A decoder without an encoder; the article's model as its text describes it."""
    PUBLISHED = "language as published"
    """The same as the article's notebook ran, see artefacts/language.py."""
    SOURCE = "source language"
    """Left to right, of the source side of a parallel corpus."""
    MASKED = "masked source language"
    """Hidden tokens of the source side of a parallel corpus, by an encoder alone."""


LANGUAGE_TASKS = {Task.LANGUAGE: Setting.DESCRIBED, Task.PUBLISHED: Setting.PUBLISHED}
SOURCE_TASKS = {Task.SOURCE: Objective.LEFT_TO_RIGHT, Task.MASKED: Objective.MASKED}


@dataclass(frozen=True)
class Sharing:
    """Other heads than a plain model's of the size: shared keys, or unequal numbers by layer.

    Without either it marks a variant in the number of heads, which is stored beside these.
    """

    key_value_heads: int | None = None
    layer_heads: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a trained model.

    `examples` counts the training pairs or lines, from the first on; all where None. `search`
    translates test sets; `context` and `watched` are for language models, which have at most one
    of drop_head, sharing and delight: UserError otherwise.
    """

    task: Task
    corpus: str
    size: Size
    vocabulary: int
    dropout: float
    training: TrainingConfig
    examples: int | None = None
    search: Search = BEAM
    context: int = 256
    watched: Watched = OFTEN
    drop_head: DropHeadSchedule | None = None
    sharing: Sharing | None = None
    delight: bool = False

    def __post_init__(self) -> None:
        if self.added and (self.task is not Task.LANGUAGE or len(self.added) > 1):
            named = ", ".join(sorted(self.added))
            raise UserError(f"a recipe for {self.task} cannot have {named}: leave it out")

    @property
    def added(self) -> set[str]:
        """The additions, of three, that the model has."""
        names = ("drop_head", "sharing", "delight")
        return {name for name in names if getattr(self, name)}

    @property
    def seed(self) -> int:
        return self.training.seed

    def with_seed(self, seed: int) -> "Recipe":
        return replace(self, training=replace(self.training, seed=seed))

    @property
    def run(self) -> Run:
        """The run of the stage that trains it: the store's key material."""
        if self.task in SOURCE_TASKS:
            return self._encoder_run()
        return self._model_run() if self.task is Task.TRANSLATION else self._language_run()

    def model(self, store: Store, deadline: float = math.inf) -> Trained:
        """The model, from the store or trained now. OutOfTimeError at the deadline."""
        return self.run.trained(store, deadline)

    def _model_run(self) -> ModelRun:
        return ModelRun(self.corpus, self.size, self.vocabulary, self.dropout, self.training,
                        self.examples, self.search)  # fmt: skip

    def _language_run(self) -> LanguageRun:
        given = (self.corpus, self.size, self.vocabulary, self.dropout, self.training,
                 LANGUAGE_TASKS[self.task], self.context, self.examples, self.watched)  # fmt: skip
        if self.drop_head is not None:
            return DroppingRun(*given, drop_head=self.drop_head)
        if self.sharing is not None:
            return SharingRun(*given, self.sharing.key_value_heads, self.sharing.layer_heads)
        return DelightRun(*given) if self.delight else LanguageRun(*given)

    def _encoder_run(self) -> EncoderRun:
        """Beside the translation model of seed 0 of the same recipe; without label smoothing."""
        beside = replace(self, task=Task.TRANSLATION)._model_run()
        return encoder_run(beside, SOURCE_TASKS[self.task], self.seed)
