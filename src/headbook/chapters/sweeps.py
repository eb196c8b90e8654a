"""The λ sweeps of a profile's models.

A sweep is a list of stage runs, each kept on its own: a killed sweep, started again, does only the
missing runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headbook.artefacts.model import TrainedModel
from headbook.artefacts.pruned import (
    PrunedModel,
    PruningRun,
    pruned,
)
from headbook.chapters.config import Config
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.types import HeadId, Kind

Kinds = tuple[Kind, ...]


@dataclass(frozen=True)
class Point:
    """One model of a sweep."""

    arm: str
    penalty: float
    made: PrunedModel

    @property
    def closed(self) -> tuple[HeadId, ...]:
        return self.made.closed


GATES = "gates"


def swept(base: TrainedModel, kinds: Kinds, config: Config, store: Store) -> Iterator[Point]:
    """The models of the sweep, one per penalty."""
    pruning = config.preset.pruning
    for penalty in pruning.penalties:
        run = PruningRun(
            base.run, kinds, penalty, _training(base, config),
            gate_factor=pruning.gate_factor, tested=pruning.tested,
        )  # fmt: skip
        yield Point(GATES, penalty, pruned(base, run, store))


def _training(base: TrainedModel, config: Config) -> TrainingConfig:
    return replace(config.preset.pruning.training, seed=base.run.training.seed)
