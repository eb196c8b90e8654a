"""A model trained here as it was on the way: untrained, and at every snapshot so far."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headbook.artefacts.catalogue import run as run_of
from headbook.artefacts.encoders import EncoderModel, EncoderRun
from headbook.artefacts.model import ModelRun, TrainedModel, corpus_of
from headbook.artefacts.trained import Trained
from headbook.looking.ours import OurEncoder, OurModel, RunFolder
from headbook.models.loaded import Loaded
from headbook.runs.store import Ingredients, Store
from headbook.types import UserError


@dataclass(frozen=True)
class OnTheWay:
    """A training, finished or under way, with the models that it saved.

    `asked` decides it; `planned` is the number of updates it is to have.
    """

    name: str
    trained: Trained
    asked: Ingredients
    planned: int

    @classmethod
    def of(cls, name: str, store: Store) -> "OnTheWay":
        """UserError for a model that is not begun, or that has no encoder."""
        run = run_of(name)
        if not isinstance(run, ModelRun | EncoderRun):
            raise UserError(f"{name} has no encoder; translation and masked language models do")
        asked = run.ingredients()
        folder = store.folder(asked) if store.has(asked) else store.under_way(asked)
        if folder is None:
            raise UserError(f"{name} is not trained here yet: `headbook train {name}` trains it")
        kind = EncoderModel if isinstance(run, EncoderRun) else TrainedModel
        corpus = corpus_of(run.corpus, run.pairs)
        return cls(name, kind(run, folder, corpus), asked, run.training.updates)

    @property
    def updates(self) -> list[int]:
        """When a model was saved; the untrained one is at 0."""
        return [0, *self.trained.snapshots]

    def file(self, update: int) -> Path:
        """The weights at an update; UserError where none were saved."""
        try:
            return self.trained.snapshots[update]
        except KeyError:
            raise UserError(
                f"{self.name} has no model of update {update}: {self.updates[1:]}"
            ) from None

    def at(self, update: int) -> OurModel | OurEncoder:
        """The model after so many updates, under its name."""
        first = self.file(update or self.updates[-1])
        loaded = replace(RunFolder(self.trained.folder, first.name).model(), name=self.name)
        return loaded if update else replace(loaded, network=self.trained.untrained())

    def __iter__(self) -> Iterator[tuple[int, Loaded]]:
        """Every model with its update, from the untrained one on."""
        for update in self.updates:
            yield update, self.at(update)
