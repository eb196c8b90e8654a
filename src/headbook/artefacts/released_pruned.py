"""The stage `released-pruned`: heads of a released translation model closed, and it trained on.

Four ways to choose which heads stay, each trained as long on the model's own translations: learned
gates (Voita et al. 2019, section 6), by importance, at random, and none closed.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headbook.artefacts.distilled import LONGEST, Distilled
from headbook.artefacts.model import corpus_of
from headbook.corpora.batches import Batch, EncodedPair
from headbook.models.gates import close_heads, open_all
from headbook.models.loaded import digest
from headbook.pruning.gating import (
    HeadPenalty,
    decided_closed,
    gate_heads,
    gates,
    parameter_groups,
)
from headbook.pruning.hard_concrete import CONSTANTS, Source
from headbook.released.firefox import FirefoxModel, batch_of
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import STATE, Trainer
from headbook.training.paired import statistics
from headbook.types import HeadId, Kind, UserError

RELEASED_PRUNED = Stage("released-pruned", version=1)
START = 2.0
"""log α of every gate before the first update: most draws are open, so that little is lost yet."""
GATE_RATE = 0.03
RATE = 1e-4
WARMUP = 50
WEIGHTS = "model.safetensors"
ENGLISH = "en"


class Choice(StrEnum):
    """Chooser of the heads that are closed."""

    GATES = "gates"
    FIXED = "fixed"  # somebody else: at random, by importance, or none of them


@dataclass(frozen=True)
class ReleasedPruning:
    """One training. `penalty` is λ of one head, of learned gates alone; `closed` of fixed ones."""

    choice: Choice
    training: TrainingConfig
    kinds: tuple[Kind, ...] = (Kind.ENCODER,)
    penalty: float = 0.0
    closed: tuple[HeadId, ...] = ()
    frozen: bool = False  # the weights; gates are learned all the same
    held: int = 400  # so many pairs are not trained on
    test: str = "ntrex-pt"
    sentences: int = 1000  # of the test set

    def __post_init__(self) -> None:
        HeadPenalty(self.penalty)
        if self.choice is Choice.GATES and self.closed:
            raise UserError("learned gates choose the heads; give no closed ones")
        if self.frozen and self.choice is Choice.FIXED:
            raise UserError("with frozen weights and fixed heads there is nothing to train")


@dataclass(frozen=True)
class ReleasedPruned:
    """A finished run and what can be read from it."""

    asked: Ingredients
    folder: Path

    @cached_property
    def _notes(self) -> dict:
        return json.loads((self.folder / "heads.json").read_text())

    @property
    def closed(self) -> tuple[HeadId, ...]:
        """In the order of blocks."""
        return tuple(HeadId(Kind(kind), *rest) for kind, *rest in self._notes["closed"])

    @property
    def gates(self) -> list[tuple[str, int, int, float]]:
        """Kind, layer, head (from zero) and log α of every learned gate; none of fixed heads."""
        return [tuple(row) for row in self._notes["gates"]]

    @property
    def loss(self) -> float:
        """Nats per target token on held pairs, with the gates decided."""
        return self._notes["loss"]

    @cached_property
    def curve(self) -> pd.DataFrame:
        """One row per validation: update, losses, heads expected open, kept and saturated."""
        return pd.read_csv(self.folder / "curve.csv")

    @property
    def translations(self) -> list[str]:
        """Of the first sentences of the test set."""
        return json.loads((self.folder / "translations.json").read_text())

    @property
    def statistics(self) -> Int[np.ndarray, "sentence 10"]:
        """Sufficient statistics of BLEU, per sentence (see training/paired.py)."""
        return np.array(self._notes["statistics"], dtype=np.int64)

    def install(self, model: FirefoxModel) -> None:
        """Gives a model, as released, the trained weights and closes the heads; in eval mode."""
        tensors, _ = checkpoint.read(self.folder / WEIGHTS)
        model.network.load_state_dict(tensors, strict=False)
        close_heads(model.network, self.closed)
        model.network.eval()


def released_pruned(
    make_model: Callable[[], FirefoxModel], text: Distilled, run: ReleasedPruning, store: Store
) -> ReleasedPruned:
    """From the store or trained now (resuming what a kill left).

    `make_model` loads the model as released, the one that translated the text. It is called for a
    training only, and each time anew: training changes its weights.
    """
    asked = asked_for(text, run)
    folder = store.get(asked, lambda aside: _train(make_model(), text, run, aside))
    (folder / STATE).unlink(missing_ok=True)
    return ReleasedPruned(asked, folder)


def asked_for(text: Distilled, run: ReleasedPruning) -> Ingredients:
    """Key material of a training in the store."""
    return Ingredients(
        RELEASED_PRUNED,
        run,
        {
            "model": text.asked.inputs["model"],
            "text": text.asked.key,
            "test": corpus_of(run.test, None).digest,
        },
        {"precision": str(run.training.precision), "device": "cpu"},
    )


def _train(model: FirefoxModel, text: Distilled, run: ReleasedPruning, folder: Path) -> None:
    network = model.network
    if digest(network) != text.asked.inputs["model"]:
        raise UserError(
            f"{model.name} did not translate this text: distil it with this model first"
        )
    pairs = _mixed(text)
    if len(pairs) <= run.held:
        raise UserError(f"{len(pairs)} pairs leave none to train on beside {run.held} held ones")
    for parameter in network.parameters():
        parameter.requires_grad_(not run.frozen)
    for embedding in (network.source, network.target):
        embedding.requires_grad_(requires_grad=False)
    addition = None
    if run.choice is Choice.GATES:
        seed = derived(run.training.seed, "gates")
        gate_heads(network, run.kinds, CONSTANTS[Source.CODE], seed, start=START)
        addition = HeadPenalty(run.penalty)
    else:
        close_heads(network, run.closed)
    groups = [group for group in parameter_groups(network, GATE_RATE / RATE) if group["params"]]
    trainer = Trainer(
        network, run.training, pairs[: -run.held], pairs[-run.held :], folder, addition=addition,
        groups=groups, rate=partial(_rate, updates=run.training.updates),
        collate=batch_of, losses=partial(_losses, model),
    )  # fmt: skip
    pd.DataFrame(trainer.run().curve).to_csv(folder / "curve.csv", index=False)
    closed = decided_closed(network) if run.choice is Choice.GATES else run.closed
    _finish(model, trainer, run, closed, folder)


def held_pairs(text: Distilled, count: int) -> list[EncodedPair]:
    """The pairs that no run with so many held ones trains on."""
    return _mixed(text)[-count:]


def _mixed(text: Distilled) -> list[EncodedPair]:
    """In one random order for every run, so that held pairs are of all texts, and the same."""
    pairs = [pair for pair in text.pairs if 1 < len(pair[1]) <= LONGEST]
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))
    return [pairs[index] for index in order.tolist()]


def _rate(update: int, updates: int) -> float:
    """Up in WARMUP updates, then down to nothing in a straight line."""
    left = (updates - update + 1) / max(updates - WARMUP, 1)
    return RATE * min(update / WARMUP, left)


def _losses(model: FirefoxModel, network: nn.Module, batch: Batch) -> Float[Tensor, " token"]:
    """The model's, with a draw of every gate for each sentence in training."""
    for _, _, gate in gates(network):
        gate.rows = len(batch)
    return model.losses(batch, shortlist=True)


def _finish(
    model: FirefoxModel,
    trainer: Trainer,
    run: ReleasedPruning,
    closed: Sequence[HeadId],
    folder: Path,
) -> None:
    """Loss and translations with the heads closed for good; weights without the embeddings."""
    learned = [
        (str(kind), layer, head, value)
        for kind, layer, gate in gates(model.network)
        for head, value in enumerate(gate.log_alpha.tolist())
    ]
    open_all(model.network)
    close_heads(model.network, closed)
    loss = trainer.validate()
    pairs = next(iter(corpus_of(run.test, None).tests.values())).first(run.sentences)
    sources, references = pairs.source, pairs.target
    if model.languages[0] != ENGLISH:  # the test set's other side
        sources, references = references, sources
    model.network.eval()
    translations = model.translate(sources)
    found = statistics(translations, references)
    notes = {
        "closed": [(str(head.kind), head.layer, head.head) for head in closed],
        "gates": learned,
        "loss": loss,
        "statistics": found.tolist(),
    }
    (folder / "translations.json").write_text(json.dumps(translations, ensure_ascii=False))
    open_all(model.network)
    changed = {
        name: tensor
        for name, tensor in model.network.state_dict().items()
        if not name.startswith(("source.", "target."))
    }
    checkpoint.write(folder / WEIGHTS, changed, {})
    (folder / "heads.json").write_text(json.dumps(notes))
    for kept in (*folder.glob("snapshot-*"), folder / "best.safetensors"):
        kept.unlink(missing_ok=True)
