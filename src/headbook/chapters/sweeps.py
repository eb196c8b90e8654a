"""The λ sweeps of a profile's models, and their controls.

A sweep is a list of stage runs, each kept on its own: a killed sweep, started again, does only the
missing runs.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from headbook.artefacts.model import TrainedModel
from headbook.artefacts.pruned import (
    ENCODER_ONLY,
    ControlRun,
    PrunedModel,
    PruningRun,
    Start,
    control,
    pruned,
)
from headbook.artefacts.trained import Trained
from headbook.chapters.config import Config
from headbook.claims.gates import over_last_sixth
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.types import HeadId, Kind

Kinds = tuple[Kind, ...]
SMALL_FALL = 0.005
"""Nats per token of the validation loss. Late in our trainings BLEU gains some fifty points per nat
(page 26): these are the quarter of a BLEU by which the ledger tells a model that converged."""


@dataclass(frozen=True)
class Point:
    """One model of a sweep, or a control of one: `arm` says which."""

    arm: str  # "gates", "random heads", "from scratch", or "nothing closed"
    penalty: float  # NaN for a model whose heads nobody learned
    made: PrunedModel

    @property
    def closed(self) -> tuple[HeadId, ...]:
        return self.made.closed


def fall(made: Trained) -> float:
    """Nats by which the validation loss fell over the last sixth of the updates, or a longer part.

    Infinite where nothing was validated before these.
    """
    change = over_last_sixth(made.curve.set_index("update")["valid_loss_nats"])
    return math.inf if change is None else -change


def still_learning(models: Iterable[Trained]) -> dict[str, str]:
    """The closed gate of a claim about what these models reach, nothing at their plateau.

    Which heads go first, in contrast, is a claim about the trained model.
    """
    most = max(map(fall, models))
    if most < SMALL_FALL:
        return {}
    told = f"the loss of pruned models still fell by {most:.3f} nats in their last updates"
    if math.isinf(most):
        told = "the loss of pruned models was not validated before their last updates"
    return {"closed": f"converged: {told}"}


GATES, RANDOM, SCRATCH, FURTHER = "gates", "random heads", "from scratch", "nothing closed"
NOT_LEARNED = float("nan")


def swept(base: TrainedModel, kinds: Kinds, config: Config, store: Store) -> Iterator[Point]:
    """The models of the sweep, one per penalty."""
    pruning = config.preset.pruning
    for penalty in pruning.penalties:
        run = PruningRun(
            base.run, kinds, penalty, _training(base, config),
            gate_factor=pruning.gate_factor, tested=pruning.tested,
        )  # fmt: skip
        yield Point(GATES, penalty, pruned(base, run, store))


def further(base: TrainedModel, kinds: Kinds, config: Config, store: Store) -> Point:
    """The unpruned model after the same further training, with which pruning is compared."""
    return Point(FURTHER, NOT_LEARNED, _control(base, kinds, (), config, store))


def random_controls(
    base: TrainedModel, kinds: Kinds, points: Sequence[Point], config: Config, store: Store
) -> Iterator[Point]:
    """Random heads, as many in each block as the gates kept, with the same further training."""
    for point in controlled(points, config.preset.pruning.controls):
        closed = shuffled(point.closed, base.run.size.heads, base.run.training.seed)
        yield Point(RANDOM, point.penalty, _control(base, kinds, closed, config, store))


def scratch_controls(
    base: TrainedModel, kinds: Kinds, points: Sequence[Point], config: Config, store: Store
) -> Iterator[Point]:
    """Exactly the heads the gates kept, from random weights: the whole model's training, and then
    the further training that the pruned models had."""
    if base.run not in config.scratch_models(alone=kinds == ENCODER_ONLY):
        return
    for point in controlled(points, config.preset.pruning.scratch):
        run = ControlRun(base.run, kinds, point.closed, base.run.training, Start.SCRATCH)
        smaller = control(base, run, store)
        yield Point(SCRATCH, point.penalty, further(smaller, kinds, config, store).made)


def controlled(points: Sequence[Point], count: int) -> list[Point]:
    """The points that have controls: spread evenly over the distinct counts of closed heads.

    A point that closed nothing has none: its control is the whole model trained further.
    """
    distinct = {len(point.closed): point for point in points if point.closed}
    ordered = [distinct[size] for size in sorted(distinct)]
    if len(ordered) <= count:
        return ordered
    ends = torch.linspace(0, len(ordered) - 1, count).round().long().tolist()
    return [ordered[index] for index in ends]


def shuffled(closed: Sequence[HeadId], heads: int, seed: int) -> tuple[HeadId, ...]:
    """As many closed heads in each block as in `closed`, drawn at random."""
    noise = torch.Generator().manual_seed(derived(seed, "random heads"))
    blocks = sorted({(head.kind, head.layer) for head in closed})
    drawn = []
    for kind, layer in blocks:
        count = sum((head.kind, head.layer) == (kind, layer) for head in closed)
        order = torch.randperm(heads, generator=noise)[:count].tolist()
        drawn += [HeadId(kind, layer, head) for head in sorted(order)]
    return tuple(drawn)


def _control(
    base: TrainedModel, kinds: Kinds, closed: tuple[HeadId, ...], config: Config, store: Store
) -> PrunedModel:
    """The model without these heads, with the further training of a pruned one."""
    tested = config.preset.pruning.tested
    run = ControlRun(base.run, kinds, closed, _training(base, config), tested=tested)
    return control(base, run, store)


def _training(base: TrainedModel, config: Config) -> TrainingConfig:
    return replace(config.preset.pruning.training, seed=base.run.training.seed)
