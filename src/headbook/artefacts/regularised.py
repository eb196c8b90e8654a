"""Runs of the stages `model` and `language` whose training is regularised, or drops heads.

They are trained by `trained` and `language_model`, as every run of these stages is.
"""

from dataclasses import dataclass

from headbook.artefacts.language import NEVER, LanguageRun, drop_on_schedule
from headbook.artefacts.model import ModelRun
from headbook.models.drop_head import DropHeadSchedule
from headbook.training.loop import Trainer
from headbook.training.regularising import Regulariser, regularise


@dataclass(frozen=True)
class RegularisedLanguageRun(LanguageRun):
    """A language model that is trained with a regulariser of its heads' diversity."""

    regulariser: Regulariser | None = None

    def equip(self, trainer: Trainer) -> None:
        """UserError for a regulariser that the model's heads cannot have."""
        regularise(trainer, self.regulariser)


@dataclass(frozen=True)
class RegularisedRun(ModelRun):
    """A translation model that is trained with a regulariser of its heads' diversity."""

    regulariser: Regulariser | None = None

    def equip(self, trainer: Trainer) -> None:
        """UserError for a regulariser that the model's heads cannot have."""
        regularise(trainer, self.regulariser)


@dataclass(frozen=True)
class DroppingModelRun(ModelRun):
    """A translation model that is trained with DropHead."""

    drop_head: DropHeadSchedule = NEVER

    def equip(self, trainer: Trainer) -> None:
        drop_on_schedule(trainer, self.drop_head)
