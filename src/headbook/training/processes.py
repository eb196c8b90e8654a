"""The processes that train one model: torchrun starts them, Lightning Fabric connects them.

    torchrun --nproc-per-node 2 -m headbook train mixture-fr-256

Every process makes the same plan of batches and takes its share of each; gradients are added, so
each then takes the same step. Only the first process writes files. Without torchrun there is one
process, and everything here gives back what it was given.
"""

import logging
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

from headbook.machine import leave_out_cudnn_attention
from headbook.text.batches import Batch
from headbook.training.precision import Precision
from headbook.types import UserError

if TYPE_CHECKING:
    import lightning.fabric

PATIENCE = timedelta(days=7)
"""How long one waits for the others. A process that is gone is noticed at once; a slow one may be
translating test sets, or waiting until somebody else has finished the same run."""

Items = TypeVar("Items", list, Tensor)
Value = TypeVar("Value")
Work = Callable[[Path], None]


class ProcessGoneError(UserError):
    """Another process is gone, so this one cannot go on; everything saved by then is complete."""

    def __init__(self, then: str = "it goes on from what is kept") -> None:
        super().__init__(f"another process stopped; start the same command again, {then}")


def fabric(precision: Precision) -> "lightning.fabric.Fabric":
    """Lightning Fabric on this process's device, connected to the others that torchrun started.

    Computes in float32 where this machine emulates bfloat16.

    Silences its notice of the precision, which a notebook would show as a fault.
    """
    from lightning.fabric import Fabric  # takes seconds, and only training needs it

    for name in ("lightning", "lightning.fabric", "lightning.pytorch"):  # any may be the one
        logging.getLogger(name).setLevel(logging.WARNING)
    leave_out_cudnn_attention()
    if not started_by_torchrun():
        return Fabric(accelerator="auto", devices=1, precision=precision.here())
    made = Fabric(precision=precision.here(), **_places())
    made.launch()
    return made


def started_by_torchrun() -> bool:
    """Whether this is one of several processes, or of one, that torchrun started."""
    return distributed.is_available() and distributed.is_torchelastic_launched()


def _places() -> dict:
    """Fabric's options for one device a process; several machines give all their GPUs each."""
    from lightning.fabric.plugins.environments import TorchElasticEnvironment
    from lightning.fabric.strategies import DDPStrategy

    started, gpus = TorchElasticEnvironment(), torch.cuda.device_count()
    if gpus and started.local_rank() >= gpus:
        raise UserError(f"this machine has {gpus} GPU(s): give torchrun no more --nproc-per-node")
    here = min(gpus, started.world_size()) or started.world_size()
    # gloo beside NCCL: numbers on the processor need not pass through the GPU.
    backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    strategy = DDPStrategy(timeout=PATIENCE, process_group_backend=backend)
    return {
        "accelerator": "cuda" if gpus else "cpu",
        "strategy": strategy,
        "devices": here,
        "num_nodes": started.world_size() // here,
    }


def connect() -> None:
    """Joins the processes that torchrun started, where it started any; a second call does nothing.

    When one has ended torchrun asks the others to (SIGTERM): that becomes ProcessGoneError.
    """
    if started_by_torchrun() and not distributed.is_initialized():
        fabric(Precision.FULL)
        signal.signal(signal.SIGTERM, _asked_to_end)


def _asked_to_end(*_: object) -> None:
    raise _gone()


def _gone() -> ProcessGoneError:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that the line comes out whole
    return ProcessGoneError()


def count() -> int:
    """Number of processes."""
    return distributed.get_world_size() if _connected() else 1


def rank() -> int:
    """Rank of this process, from 0."""
    return distributed.get_rank() if _connected() else 0


def is_first() -> bool:
    """Whether this is the process that writes, prints and keeps the time."""
    return rank() == 0


def _connected() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def collective() -> Iterator[None]:
    """Around what all processes do together: ProcessGoneError where one of them is gone."""
    try:
        yield
    except RuntimeError as error:  # gloo's and NCCL's only type for it
        if count() == 1:
            raise
        raise _gone() from error


def mine(items: Items) -> Items:
    """Every n-th item: this process's share, which may be empty."""
    return items if count() == 1 else items[rank() :: count()]


def share(batch: Batch) -> Batch:
    """Every n-th sentence of the batch, padded as before; the first process always has one."""
    if count() == 1:
        return batch
    return batch.select(slice(rank(), None, count()))


def add(values: Sequence[float]) -> list[float]:
    """Each value added over the processes, in 64 bits."""
    if count() == 1:
        return list(values)
    return _added(torch.tensor(values, dtype=torch.float64)).tolist()


def add_gradients(parameters: Iterable[Parameter], *values: Tensor) -> list[float]:
    """Adds gradients over the processes, in place, and gives the sums of the scalar values.

    All travel in one buffer of 32 bits. A process with an empty share has no gradients and adds
    zero; a parameter that has none anywhere keeps none, so that Adam leaves it alone.
    """
    if count() == 1:
        return [float(value.detach()) for value in values]
    trained = list(parameters)
    absent = [parameter.grad is None for parameter in trained]
    present = 1.0 - torch.tensor(absent, dtype=torch.float32, device=values[0].device)
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    parts = [torch.stack(values).detach(), present, *(each.flatten() for each in gradients)]
    buffer = _added(torch.cat(parts))
    sums, holders, *summed = buffer.split([len(part) for part in parts])
    for parameter, holding, gradient in zip(trained, holders.tolist(), summed, strict=True):
        parameter.grad = gradient.view_as(parameter) if holding else None
    return sums.tolist()


def _added(values: Tensor) -> Tensor:
    with collective():
        distributed.all_reduce(values)
    return values


def gather(values: Tensor) -> list[Tensor]:
    """Every process's tensor, in the order of processes; all have one shape and lie in memory."""
    if count() == 1:
        return [values]
    gathered = [torch.empty_like(values) for _ in range(count())]
    with collective():
        distributed.all_gather(gathered, values)
    return gathered


def firsts(value: Value) -> Value:
    """The first process's value, in every process: clocks and folders differ between them."""
    if count() == 1:
        return value
    said = [value]
    with collective():
        distributed.broadcast_object_list(said)
    return said[0]


def wait() -> None:
    """Until all processes are here."""
    add([0.0])


def part() -> None:
    """The end of what is done together: from here on one may end before another."""
    if count() > 1:
        wait()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextmanager
def first_goes_first() -> Iterator[None]:
    """The first process goes through the block before the others: it finds and fetches files."""
    if not is_first():
        wait()
    try:
        yield
    finally:
        if is_first():
            wait()


def together(get: Callable[[Work], Path], work: Work) -> Path:
    """Result of `get(work)`, where all processes take part in the work.

    `get` is the run store's: the first process alone asks it, locks and renames. The others do the
    work in the same folder when the first is told to, and hear at the end where the result is.
    """
    if count() == 1:
        return get(work)

    def told(folder: Path) -> None:
        firsts(("work", folder))
        work(folder)

    if is_first():
        return firsts(("done", get(told)))[1]
    while True:
        word, folder = firsts(("", Path()))
        if word == "done":
            return folder
        work(folder)


class Due(Enum):
    """Action due between two updates."""

    NOTHING = "nothing"
    SAVE = "save"
    STOP = "save and stop"


@dataclass
class Clock:
    """When to save and when to stop; the first process's clock is everybody's."""

    save_every: float  # seconds
    deadline: float = math.inf  # of time.monotonic()
    longest: float = 0.0  # seconds from one update to the next
    passed: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)

    def due(self) -> Due:
        """Asked after every update; STOP where another and saving it might end too late."""
        now = time.monotonic()
        self.longest, self.passed = max(self.longest, now - self.passed), now
        due = Due.NOTHING
        if now + 2 * self.longest >= self.deadline:
            due = Due.STOP
        elif now - self.saved > self.save_every:
            due, self.saved = Due.SAVE, now
        return firsts(due)
