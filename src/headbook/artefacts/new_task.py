"""The stage `new-task`: an encoder with new ends, tuned on a small task at one learning rate."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from headbook.artefacts.catalogue import weights_folder
from headbook.corpora.small_tasks import UNASKED, Split, Task, task
from headbook.heads.nulls import Null, without_knowledge
from headbook.models.bodies import body_of
from headbook.models.loaded import digest
from headbook.models.new_ends import NewEnds, Trainable
from headbook.released import hugging_face
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.precision import Precision
from headbook.types import UserError

NEW_TASK = Stage("new-task", version=1)
BODY, OURS = "minilm", "mixture-fr-256-masked"
"""A released encoder, and one trained here, of the weights that come with the book."""
BATCH, CLIP, EVERY = 16, 1.0, 50
"""Rows of an update, largest norm of a gradient, and updates between evaluations."""
PRECISION = Precision.BF16
"""Products in bfloat16 where the processor has them, weights and their updates in float32."""


class Start(StrEnum):
    """Source of the weights between the ends."""

    TRAINED = "trained"
    REDRAWN = "redrawn"
    """Matrices drawn anew, each with its own mean and spread; biases and norms as trained."""
    SCRATCH = "scratch"
    """The architecture's own initialisation."""


@dataclass(frozen=True)
class Tuning:
    """One cell: parameters tuned, task, initial weights, learning rate and number of updates.

    UserError for a rate that is not above zero or no update.
    """

    task: str
    start: Start
    trainable: Trainable
    rate: float
    seed: int = 0
    shuffled: bool = False  # the labels of the training rows, as a control
    layers: int = 2
    updates: int = 300

    def __post_init__(self) -> None:
        if not (self.rate > 0 and math.isfinite(self.rate)):
            raise UserError(f"a learning rate of {self.rate} trains nothing; give one above 0")
        if self.updates < 1:
            raise UserError(f"{self.updates} updates train nothing; give at least 1")


@dataclass(frozen=True)
class Tuned:
    """Accuracy at the evaluation that is best on the validation split, that of update 0 included.

    `loss` is the validation split's, in nats; `last` its accuracy at the end, NaN where the network
    gives no number any more; `steps` the updates until the end, `tuned` the share of all weights
    that are trained.
    """

    validation: float
    loss: float
    test: float
    last: float
    steps: int
    tuned: float


def tuned(cell: Tuning, store: Store, body: str = BODY) -> Tuned:
    """The outcome of a cell, from the store or trained now, with BODY or OURS between the ends."""
    made = Ingredients(NEW_TASK, cell, {"body": _digest(body)},
                       {"precision": str(PRECISION), "device": "cpu"})  # fmt: skip
    folder = store.get(made, lambda aside: _write(cell, body, aside))
    return Tuned(**json.loads((folder / "outcome.json").read_text()))


def _write(cell: Tuning, body: str, folder: Path) -> None:
    with network(cell, _network(body)) as model:
        found = train(model, cell, task(cell.task))
    (folder / "outcome.json").write_text(json.dumps(asdict(found)))


@cache
def _network(name: str) -> nn.Module:
    if name == OURS:
        return checkpoint.load_transformer(weights_folder(name) / "best.safetensors")
    model = hugging_face.load(name).network.model
    # Its own attention, without the recorder, is faster.
    model.set_attn_implementation("sdpa")
    return model


@cache
def _digest(name: str) -> str:
    return digest(_network(name))


@contextmanager
def network(cell: Tuning, given: nn.Module) -> Iterator[NewEnds]:
    """The network of a cell before its first update; the `given` one stays as it is."""
    found = task(cell.task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(cell.seed, "new layers"))
        own = type(given)(given.config) if cell.start is Start.SCRATCH else copy.deepcopy(given)
        body = body_of(own, cell.layers)
        model = NewEnds(body, found.features, found.classes, found.positions, found.each).eval()
    drawn = (
        without_knowledge(model.body, Null.DRAWN, derived(cell.seed, "matrices"))
        if cell.start is Start.REDRAWN
        else nullcontext()
    )
    with drawn:
        yield model


def train(model: NewEnds, cell: Tuning, found: Task) -> Tuned:
    """Adam at a constant rate without dropout, until the validation split is perfect or the end.

    Where only the output layer is trained, its inputs are computed once.
    """
    names = model.train_only(cell.trainable)
    chosen = [each for each in model.parameters() if each.requires_grad]
    assert len(names) == len(chosen)
    split, validation, test = found.train, found.validation, found.test
    labels = _shuffled(split.labels, cell.seed) if cell.shuffled else split.labels
    cached = cell.trainable is Trainable.OUTPUT
    read = {id(each): _states(model, each) if cached else None
            for each in (split, validation, test)}  # fmt: skip

    def logits(part: Split, rows: Tensor) -> Tensor:
        if (states := read[id(part)]) is not None:
            return model.answer(states[rows])
        with _autocast():
            states = model.read(part.inputs[rows], part.real[rows])
        return model.answer(states)

    optimiser = torch.optim.Adam(chosen, lr=cell.rate, fused=True)
    order = _order(len(split), cell.seed)
    best, step = _evaluated(logits, validation), 0
    last, scored = best, _evaluated(logits, test)
    for step in tqdm(range(1, cell.updates + 1), desc=_label(cell), unit="update", mininterval=5):
        rows = next(order)
        loss = _nats(logits(split, rows), labels[rows])
        optimiser.zero_grad()
        loss.backward()
        if not torch.isfinite(loss):
            last = (math.nan, math.nan)
            break
        nn.utils.clip_grad_norm_(chosen, CLIP)
        optimiser.step()
        if step % EVERY and step < cell.updates:
            continue
        last = _evaluated(logits, validation)
        # NaN compares as false: a broken network is never the best
        if (last[0], -last[1]) > (best[0], -best[1]):
            best, scored = last, _evaluated(logits, test)
        if best[0] == 1.0:
            break
    share = sum(each.numel() for each in chosen) / sum(each.numel() for each in model.parameters())
    return Tuned(best[0], best[1], scored[0], last[0], step, share)


def _autocast() -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=PRECISION.here() is Precision.BF16)


@torch.no_grad()
def _states(model: NewEnds, split: Split) -> Float[Tensor, "row answer width"]:
    with _autocast():
        return torch.cat([model.read(split.inputs[rows], split.real[rows])
                          for rows in torch.arange(len(split)).split(200)])  # fmt: skip


@torch.no_grad()
def _evaluated(logits: Callable[[Split, Tensor], Tensor], part: Split) -> tuple[float, float]:
    """Accuracy and loss in nats."""
    given = torch.cat([logits(part, rows) for rows in torch.arange(len(part)).split(200)])
    return right(given, part.labels), float(_nats(given, part.labels))


def right(logits: Float[Tensor, "row answer class"], labels: Tensor) -> float:
    """Share of what is asked for that is right; NaN where the network gives no number."""
    if not torch.isfinite(logits).all():
        return math.nan
    asked = labels != UNASKED
    return float((logits.argmax(-1) == labels)[asked].double().mean())


def _nats(logits: Float[Tensor, "row answer class"], labels: Tensor) -> Tensor:
    """Cross-entropy, the mean over what is asked for."""
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=UNASKED)


def _order(rows: int, seed: int) -> Iterator[Tensor]:
    """Rows of one update after the other, epoch by epoch; rows left over are drawn again."""
    generator = torch.Generator().manual_seed(derived(seed, "order"))
    while True:
        for batch in torch.randperm(rows, generator=generator).split(BATCH):
            if len(batch) == BATCH:
                yield batch


def _shuffled(labels: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(derived(seed, "shuffled labels"))
    return labels[torch.randperm(len(labels), generator=generator)]


def _label(cell: Tuning) -> str:
    return f"{cell.task}, {cell.start}, {cell.trainable}, {cell.rate:g}, seed {cell.seed}"
