"""The training loop, through Lightning Fabric: read from top to bottom, resumed from anywhere."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from headbook.machine import give_back_freed_memory, keep_freed_memory
from headbook.models import checkpoint
from headbook.models.capture import Tape, capture
from headbook.text.batches import PAD, Batch, Collate, EncodedPair, collate, epoch, in_order
from headbook.training import processes
from headbook.training.config import TrainingConfig, learning_rate
from headbook.types import UserError

STATE, BEST = "state.safetensors", "best.safetensors"
"""In the folder of a training: the checkpoint from which it resumes, and the model with the least
validation loss."""
SNAPSHOTS = "snapshot-*.safetensors"
"""The files of models kept on the way, see `snapshot_name`."""
RISE = 100
"""Updates over which the learning rate rises where Adam's moments begin anew."""


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
    restarted: int = 0  # the update that was gone on from without Adam's moments


@dataclass
class Clock:
    """When to save and when to stop; the first process's clock is everybody's."""

    save_every: float  # seconds
    deadline: float  # of time.monotonic()
    longest: float = 0.0  # seconds from one update to the next
    passed: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)

    def due(self) -> tuple[bool, bool]:
        """Whether to save and whether to stop: where another update, and saving it, might end too
        late. Asked after every update."""
        now = time.monotonic()
        self.longest, self.passed = max(self.longest, now - self.passed), now
        stop = now + 2 * self.longest >= self.deadline
        save = stop or now - self.saved > self.save_every
        self.saved = now if save else self.saved
        return processes.firsts((save, stop))


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
    logits. Each of `before` is called before every update, with the model and the number of
    updates done, and draws no random number.

    `addition` is added to the loss: called with model, batch and a tape of the `points` of
    attention that it reads, it gives nats per target token, part of the training pass's graph; its
    `row` of the model is joined to those of the learning curve.

    Where torchrun started several processes, each takes its share of every batch and all take the
    same step; the first writes the files. Losses and weights are then those of one process up to
    the order of sums, if there is no dropout: its masks are drawn by each process for itself.
    Killed and resumed with as many processes, a training on CPU ends bit for bit as if it had not
    been; with another number of them, up to the order of sums and the masks.
    """

    model: nn.Module
    config: TrainingConfig
    train: Sequence[EncodedPair]
    valid: Sequence[EncodedPair]
    folder: Path
    save_every: float = 30.0  # seconds between checkpoints
    addition: Any = None
    groups: list[dict[str, Any]] | None = None
    rate: Callable[[int], float] | None = None
    collate: Collate = collate
    losses: Callable[[nn.Module, Batch], Float[Tensor, " token"]] | None = None
    before: list[Callable[[nn.Module, int], None]] = field(default_factory=list)
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

        OutOfTimeError where the deadline comes first, after one update at least.
        """
        self._start()
        clock = Clock(self.save_every, self.deadline)
        with tqdm(total=self.config.updates, initial=self.progress.update, desc="training",
                  unit="update", mininterval=5, disable=processes.rank() > 0) as bar:  # fmt: skip
            for batch in self._batches():
                began = time.monotonic()
                loss = self._update(batch)
                self.progress.seconds += time.monotonic() - began
                self._after_update()
                bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
                bar.update()
                save, stop = clock.due()
                if save:
                    self._save()
                if stop:
                    raise OutOfTimeError(self.progress.update)
        self._save()
        return self.progress

    def go_on_from(self, weights: Path, update: int, curve: list[dict[str, int | float]]) -> None:
        """Begins behind so many updates of another machine, of which `weights` are what is left.

        Batches are those that come next. Adam's moments are new, for which the learning rate rises
        over RISE updates; the curve's further rows name the update as `restarted`.
        """
        checkpoint.load_model(self.model, weights)
        self.progress = Progress(update, curve=curve, restarted=update)
        left = update
        while left > (length := len(self._plan(self.progress.epoch))):
            self.progress.epoch, left = self.progress.epoch + 1, left - length
        self.progress.batch = left
        self._save_model(snapshot_name(update))

    def _plan(self, number: int) -> list[list[int]]:
        return epoch(self.train, self.config.tokens, self.config.seed, number)

    def _start(self) -> None:
        if self.addition is not None and self.addition.points and processes.count() > 1:
            raise UserError(
                "a penalty on what attention computes needs the whole batch in one process: "
                "train this model without torchrun"
            )
        torch.manual_seed(self.config.seed + processes.rank() + self.progress.update)
        if self.state_file.exists():
            process = processes.rank()
            note = checkpoint.load_state(self.state_file, self.model, self.optimiser, process)
            self.progress = Progress(**note)

    def _save(self) -> None:
        random = processes.gathered(torch.get_rng_state())
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

    def _update(self, batch: Batch) -> float:
        update = self.progress.update + 1
        for prepare in self.before:
            prepare(self.model, update - 1)
        self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate(update) * group.get("factor", 1.0)
        tokens = int(batch.target_mask.sum())
        points = self.addition.points if self.addition is not None else ()
        # an empty tape leaves attention its fast path
        with capture(self.model, points) if points else nullcontext(Tape()) as tape:
            loss = self._loss(self._share(batch), self.config.label_smoothing) / tokens
        total = loss
        if self.addition is not None and processes.is_first():  # it counts once
            total = loss + self.addition(self.model, batch.to(self.fabric.device), tape)
        if total.requires_grad:
            self.fabric.backward(total)
        trained = [each for group in self.optimiser.param_groups for each in group["params"]]
        reported, minimised = processes.add_gradients(trained, loss, total)
        if not math.isfinite(minimised):
            raise UserError(
                f"the loss is {minimised} at update {update}: lower `scale` or lengthen `warmup`"
            )
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.progress.update = update
        self.progress.target_tokens += tokens
        self.progress.loss_sum += reported * tokens
        self.progress.loss_tokens += tokens
        return reported

    def _rate(self, update: int) -> float:
        if self.rate is not None:
            return self.rate(update)
        width, since = self.model.config.width, update - self.progress.restarted
        rate = learning_rate(update, width, self.config.scale, self.config.warmup)
        return rate * min(since / RISE, 1.0) if self.progress.restarted else rate

    def _share(self, batch: Batch) -> Batch:
        """Every n-th sentence, padded as before; the first process always has one."""
        if processes.count() == 1:
            return batch
        return batch.select(slice(processes.rank(), None, processes.count()))

    def _loss(self, batch: Batch, smoothing: float) -> Tensor:
        """Summed cross-entropy over target tokens, in nats; 0 of a share without sentences."""
        batch = batch.to(self.fabric.device)
        if not len(batch):
            return torch.zeros((), device=self.fabric.device)
        with self.fabric.autocast():
            if self.losses is not None:
                return self.losses(self.model, batch).float().sum()
            logits = self.model(batch)
        return functional.cross_entropy(
            logits.float().flatten(0, 1),
            batch.target_out.flatten(),
            ignore_index=PAD,
            label_smoothing=smoothing,
            reduction="sum",
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
        batches = list(in_order(self.valid, self.config.tokens, self.collate))
        with torch.inference_mode():
            for batch in batches[processes.rank() :: processes.count()]:
                total += float(self._loss(batch, 0.0))
                tokens += int(batch.target_mask.sum())
        totals, counts = zip(*processes.gathered((total, tokens)), strict=True)
        return sum(totals) / sum(counts)

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
    return f"snapshot-{update:07d}.safetensors"
