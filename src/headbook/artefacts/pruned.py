"""The stage `pruned`: models whose gates close heads as they are trained further."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from headbook.artefacts.model import ModelRun, TrainedModel, score
from headbook.artefacts.trained import as_drawn
from headbook.corpora.subwords import Subwords
from headbook.models.gates import close_heads, open_all
from headbook.models.transformer import Transformer
from headbook.pruning.gating import (
    HeadPenalty,
    decided_closed,
    freeze_decoder,
    gate_heads,
    gates,
    parameter_groups,
)
from headbook.pruning.hard_concrete import CONSTANTS, Source
from headbook.pruning.surgery import take_out
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import STATE, Trainer
from headbook.types import HeadId, Kind, UserError

PRUNED = Stage("pruned", version=1)
ENCODER_ONLY = (Kind.ENCODER,)
EVERYTHING = tuple(Kind)


@dataclass(frozen=True)
class PruningRun:
    """Learning which heads to keep, from a trained model; `penalty` is λ of one head.

    With gates in the encoder alone the decoder is frozen (section 6.2). The gates' learning rate is
    `gate_factor` times that of the weights.
    """

    model: ModelRun
    kinds: tuple[Kind, ...]
    penalty: float
    training: TrainingConfig
    source: Source = Source.CODE
    gate_factor: float = 1.0
    tested: int | None = None  # sentences of the primary test set that are translated; all if None

    def __post_init__(self) -> None:
        HeadPenalty(self.penalty)  # refuses what is no λ, before anything is trained


@dataclass(frozen=True)
class PrunedModel(TrainedModel):
    """Result of the stage: the model, its heads and its translations of the primary test set."""

    base: TrainedModel
    made_by: Ingredients

    @property
    def asked(self) -> Ingredients:
        return self.made_by

    @cached_property
    def source(self) -> Subwords:
        return self.base.source

    @cached_property
    def target(self) -> Subwords:
        return self.base.target

    @cached_property
    def _notes(self) -> dict:
        return json.loads((self.folder / "heads.json").read_text())

    @property
    def closed(self) -> tuple[HeadId, ...]:
        """The heads that are closed or were never there, in the order of blocks."""
        inherited = self.base.closed if isinstance(self.base, PrunedModel) else ()
        return inherited + tuple(HeadId(Kind(kind), *rest) for kind, *rest in self._notes["closed"])

    @property
    def log_alphas(self) -> pd.DataFrame:
        """One row per gate: kind, layer, head (from zero) and log α."""
        return pd.DataFrame(self._notes["gates"], columns=["kind", "layer", "head", "log_alpha"])

    @property
    def translations(self) -> list[str]:
        """Of the primary test set, or of its first sentences."""
        return primary_translations(self)

    def model(self, update: int | None = None) -> Transformer:
        """The model with its heads closed, in eval mode; a pruned one has no other updates."""
        if update is not None:
            raise UserError("a pruned model is saved at its last update only")
        model = checkpoint.load_transformer(self.folder / "model.safetensors")
        if model.config.head_counts is None:
            close_heads(model, self.closed)
        return model


def primary_translations(made: TrainedModel) -> list[str]:
    """A model's translations of the first of its test sets."""
    name = next(iter(made.corpus.tests))
    return (made.folder / f"{name}.txt").read_text().split("\n")[:-1]


def pruned(base: TrainedModel, run: PruningRun, store: Store) -> PrunedModel:
    """The model pruned by learned gates, from the store or made now (resuming what a kill left)."""
    return _made(base, PRUNED, run, store, lambda made: _learn(made, run))


def _made(
    base: TrainedModel,
    stage: Stage,
    run: PruningRun,
    store: Store,
    make: Callable[[PrunedModel], None],
) -> PrunedModel:
    asked = Ingredients(stage, run, {"model": base.asked.key}, base.asked.policy)

    def model_in(folder: Path) -> PrunedModel:
        return PrunedModel(base.run, folder, base.corpus, base, asked)

    folder = store.get(asked, lambda aside: make(model_in(aside)))
    (folder / STATE).unlink(missing_ok=True)
    return model_in(folder)


def _learn(made: PrunedModel, run: PruningRun) -> None:
    model = made.base.model()
    gate_heads(model, run.kinds, CONSTANTS[run.source], derived(run.training.seed, "gates"))
    if run.kinds == ENCODER_ONLY:
        freeze_decoder(model)
    groups = parameter_groups(model, run.gate_factor)
    _train(made, model, run.training, groups=groups, addition=HeadPenalty(run.penalty))
    learned = [
        (str(kind), layer, head, value)
        for kind, layer, gate in gates(model)
        for head, value in enumerate(gate.log_alpha.tolist())
    ]
    _finish(made, model, decided_closed(model), learned, run.tested)


def _train(made: PrunedModel, model: Transformer, training: TrainingConfig, **more: object) -> None:
    valid = made.encode(made.corpus.valid)
    drawn, pairs = as_drawn(training), made.base.training_pairs
    trainer = Trainer(model, drawn, pairs, valid, made.folder, **more)
    curve = trainer.run().curve
    pd.DataFrame(curve).to_csv(made.folder / "curve.csv", index=False)


def _finish(
    made: PrunedModel,
    model: Transformer,
    closed: tuple[HeadId, ...],
    learned: list[tuple],
    tested: int | None,
) -> None:
    """Keeps the weights without gates, which heads are closed, and the translations."""
    notes = {
        "closed": [(str(head.kind), head.layer, head.head) for head in closed],
        "gates": learned,
    }
    (made.folder / "heads.json").write_text(json.dumps(notes))
    open_all(model)
    checkpoint.save_model(model, made.folder / "model.safetensors")
    name, pairs = next(iter(made.corpus.tests.items()))
    score(made, take_out(made.model()), {name: pairs.first(tested)})
    for kept in (*made.folder.glob("snapshot-*"), made.folder / "best.safetensors"):
        kept.unlink(missing_ok=True)
