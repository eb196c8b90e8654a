"""The training loop, through Lightning Fabric: read from top to bottom, resumed from anywhere."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from headbook.models import checkpoint
from headbook.models.capture import Point, Tape, capture
from headbook.text.batches import PAD, Batch, Collate, EncodedPair, collate, epoch, in_order
from headbook.training import processes
from headbook.training.config import TrainingConfig
from headbook.training.memory import give_back_freed_memory, keep_freed_memory
from headbook.training.schedule import learning_rate
from headbook.types import UserError

STATE, BEST = "state.safetensors", "best.safetensors"
"""In the folder of a training: the checkpoint from which it resumes, and the model with the least
validation loss."""
SNAPSHOTS = "snapshot-*.safetensors"
"""The files of models kept on the way, see `snapshot_name`."""
RISE = 100
"""Updates over which the rate rises again where Adam's moments begin anew; of β₂ = .98 they hold
the last fifty or so."""


@runtime_checkable
class Addition(Protocol):
    """Something added to the loss of every update, such as a penalty on open heads."""

    @property
    def points(self) -> frozenset[Point]:
        """Points of attention that it reads; where it reads none, nothing is recorded."""

    def __call__(self, model: nn.Module, batch: Batch, tape: Tape) -> Tensor:
        """In nats per target token, part of the graph of the training pass that left the tape."""

    def row(self, model: nn.Module) -> dict[str, float]:
        """Its columns in a row of the learning curve."""


Observer = Callable[[nn.Module, Batch, int, float], None]
"""Sees, before the step behind an update, the model that had this loss (nats) on this batch; it
changes nothing of the training, its random numbers least."""


@dataclass
class Progress:
    """State of a training run; all of it is in every checkpoint."""

    update: int = 0
    epoch: int = 0
    batch: int = 0  # the next batch of this epoch
    seconds: float = 0.0
    target_tokens: int = 0
    loss_sum: float = 0.0  # since the last row of the curve
    loss_tokens: int = 0
    best: float = math.inf
    curve: list[dict[str, int | float]] = field(default_factory=list)
    restarted: int = 0  # the last update whose weights were gone on from without Adam's moments


@dataclass(frozen=True)
class Start:
    """Weights after `update` updates, from which a training goes on that has no checkpoint here.

    `curve` has the rows of its learning curve so far.
    """

    weights: Path
    update: int
    curve: Sequence[dict[str, int | float]] = ()


class OutOfTimeError(Exception):
    """A training stopped before its deadline, with a checkpoint after `update`."""

    def __init__(self, update: int) -> None:
        super().__init__(f"out of time after update {update}")
        self.update = update


@dataclass
class Trainer:
    """One model on its way through the updates; files go to `folder`.

    `groups` are Adam's, all parameters where None; a group's `factor` multiplies the learning rate.
    `rate` gives the learning rate of an update, counted from one, instead of the schedule. For
    models with ids or outputs of their own, `collate` puts encoded pairs into a batch and `losses`
    gives the nats of its target tokens; without it they are the cross-entropy of the model's
    logits.

    Where torchrun started several processes, each takes its share of every batch and all take the
    same step; the first writes the files. Losses and weights are then those of one process up to
    the order of sums, if there is no dropout: its masks are drawn by each process for itself.
    Killed and resumed with as many processes, a training on CPU ends bit for bit as if it had not
    been; with another number of them, up to the order of sums and the masks.

    Where there is no checkpoint but a `start`, training goes on behind it: with the same batches,
    other dropout masks, Adam's moments anew and a rate that rises again over RISE updates. Rows of
    the curve behind it name it as `restarted`. At a start of the last update nothing is trained.
    """

    model: nn.Module
    config: TrainingConfig
    train: Sequence[EncodedPair]
    valid: Sequence[EncodedPair]
    folder: Path
    save_every: float = 30.0  # seconds between checkpoints
    addition: Addition | None = None
    groups: list[dict[str, Any]] | None = None
    rate: Callable[[int], float] | None = None
    collate: Collate = collate
    losses: Callable[[nn.Module, Batch], Float[Tensor, " token"]] | None = None
    prepare: Callable[[nn.Module, int], None] | None = None
    observer: Observer | None = None
    start: Start | None = None
    deadline: float = math.inf  # of time.monotonic(); no part of what decides a model

    def __post_init__(self) -> None:
        if not self.train or not self.valid:
            raise UserError("a training needs at least one training and one validation pair")
        keep_freed_memory()
        self.fabric = processes.fabric(self.config.precision)
        self.model = self.fabric.to_device(self.model)
        self.optimiser = torch.optim.Adam(
            self.groups or self.model.parameters(),
            betas=self.config.betas,
            eps=self.config.epsilon,
            fused=True,
        )
        self.progress = Progress()
        self.state_file = self.folder / STATE

    def run(self) -> Progress:
        """Trains until `config.updates`, from the last checkpoint where there is one.

        OutOfTimeError where the deadline comes first, after one update at least; ProcessGoneError
        where another process is gone.
        """
        try:
            self._train()
        except processes.ProcessGoneError:
            kept = checkpoint.kept_update(self.state_file)
            raise processes.ProcessGoneError(f"it resumes at update {kept}") from None
        return self.progress

    def _train(self) -> None:
        self._start()
        clock = processes.Clock(self.save_every, self.deadline)
        with tqdm(total=self.config.updates, initial=self.progress.update, desc="training",
                  unit="update", mininterval=5, disable=processes.rank() > 0) as bar:  # fmt: skip
            for batch in self._batches():
                began = time.monotonic()
                loss = self._update(batch)
                self.progress.seconds += time.monotonic() - began
                self._after_update()
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                self._save_if(clock.due())
        self._save()

    def _start(self) -> None:
        if self.addition is not None and self.addition.points and processes.count() > 1:
            raise UserError(
                "a penalty on what attention computes needs the whole batch in one process: "
                "train this model without torchrun"
            )
        torch.manual_seed(self.config.seed + processes.rank())
        if self.state_file.exists():
            process = processes.rank()
            note = checkpoint.load_state(self.state_file, self.model, self.optimiser, process)
            self.progress = Progress(**note)
        elif self.start is not None:
            self._go_on_from(self.start)

    def _go_on_from(self, start: Start) -> None:
        checkpoint.load_model(self.model, start.weights)
        torch.manual_seed(self.config.seed + processes.rank() + start.update)
        self.progress = Progress(start.update, curve=list(start.curve), restarted=start.update)
        left = start.update
        while left > (length := len(self._plan(self.progress.epoch))):
            self.progress.epoch, left = self.progress.epoch + 1, left - length
        self.progress.batch = left
        self._save_model(snapshot_name(start.update))
        if start.update >= self.config.updates:  # no validation is to come that would choose it
            self._save_model(BEST)

    def _save_if(self, due: processes.Due) -> None:
        if due is not processes.Due.NOTHING:
            self._save()
        if due is processes.Due.STOP:
            raise OutOfTimeError(self.progress.update)

    def _save(self) -> None:
        random = processes.gather(torch.get_rng_state())
        if processes.is_first():
            note = asdict(self.progress)
            checkpoint.save_state(self.state_file, self.model, self.optimiser, note, random)

    def _batches(self) -> Iterator[Batch]:
        while self.progress.update < self.config.updates:
            for indices in self._plan(self.progress.epoch)[self.progress.batch :]:
                if self.progress.update == self.config.updates:
                    return
                # Counted before the batch is used: a checkpoint after its update goes on behind it.
                self.progress.batch += 1
                yield self.collate([self.train[index] for index in indices], indices)
            self.progress.epoch, self.progress.batch = self.progress.epoch + 1, 0

    def _plan(self, number: int) -> list[list[int]]:
        """The batches of an epoch as indices of pairs."""
        return epoch(self.train, self.config.tokens, self.config.seed, number)

    def _update(self, batch: Batch) -> float:
        self.model.train()
        if self.prepare is not None:
            self.prepare(self.model, self.progress.update + 1)
        rate = self._rate(self.progress.update + 1)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
        tokens = int(batch.target_mask.sum())
        with self._recorded() as tape:
            loss = self._loss(processes.share(batch), self.config.label_smoothing) / tokens
        total = loss
        if self.addition is not None and processes.is_first():  # it counts once
            total = loss + self.addition(self.model, batch.to(self.fabric.device), tape)
        if total.requires_grad:
            self.fabric.backward(total)
        trained = [each for group in self.optimiser.param_groups for each in group["params"]]
        reported, minimised = processes.add_gradients(trained, loss, total)
        if not math.isfinite(minimised):
            self._stop_at(batch, minimised)
        if self.observer is not None:
            self.observer(self.model, batch, self.progress.update, reported)
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.progress.update += 1
        self.progress.target_tokens += tokens
        self.progress.loss_sum += reported * tokens
        self.progress.loss_tokens += tokens
        return reported

    def _recorded(self) -> AbstractContextManager[Tape]:
        """The tape of what the addition reads; an empty one leaves attention its fast path."""
        points = self.addition.points if self.addition is not None else frozenset()
        return capture(self.model, points) if points else nullcontext(Tape())

    def _rate(self, update: int) -> float:
        if self.rate is not None:
            return self.rate(update)
        width, since = self.model.config.width, update - self.progress.restarted
        rate = learning_rate(update, width, self.config.scale, self.config.warmup)
        return rate * min(since / RISE, 1.0) if self.progress.restarted else rate

    def _loss(self, batch: Batch, smoothing: float) -> Tensor:
        """Summed cross-entropy over target tokens, in nats; 0 of a share without sentences."""
        batch = batch.to(self.fabric.device)
        if not len(batch):
            return torch.zeros((), device=self.fabric.device)
        if self.losses is not None:
            with self.fabric.autocast():
                return self.losses(self.model, batch).float().sum()
        with self.fabric.autocast():
            logits = self.model(batch)
        return functional.cross_entropy(
            logits.float().flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=smoothing,
            reduction="sum",
        )

    def _stop_at(self, batch: Batch, loss: float) -> None:
        where = self.folder / "bad_batch.safetensors"
        if processes.is_first():
            tensors = {name: getattr(batch, name) for name in ("source", "target_out", "sentences")}
            checkpoint.write(where, tensors, {"update": self.progress.update + 1})
        processes.wait()
        raise UserError(
            f"the loss is {loss} at update {self.progress.update + 1}; its batch is in {where}; "
            "lower `scale` or lengthen `warmup`"
        )

    def _after_update(self) -> None:
        update, last = self.progress.update, self.progress.update == self.config.updates
        if self.config.is_snapshot(update) or last:
            self._save_model(snapshot_name(update))
        if update % self.config.validate_every == 0 or last:
            self._add_row(self.validate())
            give_back_freed_memory()

    def validate(self) -> float:
        """Cross-entropy a target token on the validation pairs, in nats, without smoothing."""
        self.model.eval()
        total, tokens = 0.0, 0.0
        with torch.inference_mode():
            for batch in processes.mine(
                list(in_order(self.valid, self.config.tokens, self.collate))
            ):
                total += float(self._loss(batch, 0.0))
                tokens += int(batch.target_mask.sum())
        total, tokens = processes.add([total, tokens])
        return total / tokens

    def _add_row(self, valid_loss: float) -> None:
        progress = self.progress
        row = {
            "update": progress.update,
            "epoch": progress.epoch,
            "target_tokens": progress.target_tokens,
            "train_loss_nats": progress.loss_sum / max(progress.loss_tokens, 1),
            "valid_loss_nats": valid_loss,
            "seconds": progress.seconds,
        }
        if progress.restarted:
            row["restarted"] = progress.restarted
        if self.addition is not None:
            row |= self.addition.row(self.model)
        progress.curve.append(row)
        progress.loss_sum, progress.loss_tokens = 0.0, 0
        if valid_loss < progress.best:
            progress.best = valid_loss
            self._save_model(BEST)

    def _save_model(self, name: str) -> None:
        if processes.is_first():
            checkpoint.save_model(self.model, self.folder / name)


def snapshot_name(update: int) -> str:
    """File name of the model kept after `update` updates."""
    return f"snapshot-{update:07d}.safetensors"
