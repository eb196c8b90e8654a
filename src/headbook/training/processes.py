"""The processes that train one model: torchrun starts them, Lightning Fabric connects them.

    torchrun --nproc-per-node 2 -m headbook train mixture-fr-256

Every process makes the same plan of batches and takes its share of each; gradients are added, so
each then takes the same step. Only the first process writes files. Without torchrun there is one
process, and everything here gives back what it was given.
"""

import logging
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, distributed
from torch.nn import Parameter

from headbook.extras import extras
from headbook.machine import leave_out_cudnn_attention
from headbook.training.config import Precision
from headbook.types import UserError

if TYPE_CHECKING:
    import lightning_fabric

PATIENCE = timedelta(days=7)
"""How long one waits for the others. A process that is gone is noticed at once; a slow one may be
translating test sets, or waiting until somebody else has finished the same run."""

Value = TypeVar("Value")
Work = Callable[[Path], None]


def fabric(precision: Precision) -> "lightning_fabric.Fabric":
    """Lightning Fabric on this process's device, connected to the others that torchrun started.

    Computes in float32 where this machine emulates bfloat16.

    Silences its notice of the precision, which a notebook would show as a fault.
    """
    with extras():
        from lightning_fabric import Fabric  # takes a second, and only training needs it

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
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
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy

    started, gpus = TorchElasticEnvironment(), torch.cuda.device_count()
    if gpus and started.local_rank() >= gpus:
        raise UserError(f"this machine has {gpus} GPU(s): give torchrun no more --nproc-per-node")
    here = min(gpus, started.world_size()) or started.world_size()
    # gloo beside NCCL: numbers on the processor need not pass through the GPU.
    backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    return {
        "accelerator": "cuda" if gpus else "cpu",
        "strategy": DDPStrategy(timeout=PATIENCE, process_group_backend=backend),
        "devices": here,
        "num_nodes": started.world_size() // here,
    }


def connect() -> None:
    """Joins the processes that torchrun started, where it started any; a second call does nothing.

    When one has ended torchrun asks the others to (SIGTERM): that becomes the UserError of a
    process that is gone.
    """
    if started_by_torchrun() and not distributed.is_initialized():
        fabric(Precision.FULL)
        signal.signal(signal.SIGTERM, _asked_to_end)


def _asked_to_end(*_: object) -> None:
    raise _gone()


def _gone() -> UserError:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that the line comes out whole
    return UserError(
        "another process stopped; start the same command again, it resumes from its last checkpoint"
    )


def count() -> int:
    return distributed.get_world_size() if _connected() else 1


def rank() -> int:
    return distributed.get_rank() if _connected() else 0


def is_first() -> bool:
    """Whether this is the process that writes, prints and keeps the time."""
    return rank() == 0


def _connected() -> bool:
    return distributed.is_available() and distributed.is_initialized()


@contextmanager
def _collective() -> Iterator[None]:
    """Around what all processes do together: UserError where one of them is gone."""
    try:
        yield
    except RuntimeError as error:  # gloo's and NCCL's only type for it
        raise _gone() from error


def gathered(value: Value) -> list[Value]:
    """Every process's value, in the order of processes."""
    if count() == 1:
        return [value]
    found = [value] * count()
    with _collective():
        distributed.all_gather_object(found, value)
    return found


def firsts(value: Value) -> Value:
    """The first process's value, in every process: clocks and folders differ between them."""
    return gathered(value)[0]


def wait() -> None:
    gathered(None)


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
    buffer = torch.cat(parts)
    with _collective():
        distributed.all_reduce(buffer)
    sums, holders, *summed = buffer.split([len(part) for part in parts])
    for parameter, holding, gradient in zip(trained, holders.tolist(), summed, strict=True):
        parameter.grad = gradient.view_as(parameter) if holding else None
    return sums.tolist()


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

    def told(folder: Path) -> None:
        firsts((folder, True))
        work(folder)

    if is_first():
        return firsts((get(told), False))[0]
    folder, working = firsts((Path(), True))
    while working:
        work(folder)
        folder, working = firsts((folder, True))
    return folder
