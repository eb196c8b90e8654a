"""Where the time of a training step, or of other work, goes by kind of operation."""

from collections.abc import Callable
from functools import partial

from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from headbook.bench.config import BenchConfig
from headbook.bench.contestants import Contestant, TrainingStep, build, device
from headbook.bench.rounds import Spread
from headbook.bench.speed import training_batches
from headbook.bench.table import Row
from headbook.training.memory import keep_freed_memory

MATRICES, COPIES = "matrix products", "copies and casts"
KINDS = {
    MATRICES: ("mm", "addmm", "bmm", "baddbmm"),
    COPIES: ("copy_",),
    "dropout masks": ("random_", "lt", "logical_not_", "native_dropout", "bernoulli_"),
    "softmax": ("_softmax", "_softmax_backward_data"),
    "layer norms": ("native_layer_norm", "native_layer_norm_backward"),
    "loss over the vocabulary": ("_log_softmax", "_log_softmax_backward_data",
                                 "nll_loss_forward", "nll_loss_backward"),
    "optimiser": ("_fused_adam_",),
}  # fmt: skip
"""Operators of torch by what they are part of."""
REST = "everything else"
KIND = {f"aten::{operator}": kind for kind, operators in KINDS.items() for operator in operators}


def shares_of(work: Callable[[], object]) -> dict[str, float]:
    """Shares of the time that its operators take themselves, by kind; they sum to 1.

    On an accelerator its time, on a processor that of the process, autograd's own included.
    """
    on_gpu = device().type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=activities) as watched:
        work()

    def taken(event: FunctionEventAvg) -> float:
        return event.self_device_time_total if on_gpu else event.self_cpu_time_total

    sums = dict.fromkeys([*KINDS, REST], 0.0)
    for event in watched.key_averages():
        sums[KIND.get(event.key, REST)] += taken(event)
    total = sum(sums.values())
    return {kind: each / total for kind, each in sums.items()}


def shares(config: BenchConfig, width: int) -> list[Row]:
    """One row per kind of operation of our training step, over as many batches as rounds."""
    keep_freed_memory()
    step = TrainingStep(build(Contestant.OURS, config.model(width)), config.precision)
    first, *batches = training_batches(config)
    step(first)
    bar = tqdm(batches, desc=f"shares of a step, width {width}", unit="round")
    found = [shares_of(partial(step, batch)) for batch in bar]
    return [
        Row(f"training: share of {kind}", Spread.of([each[kind] for each in found]),
            "of the step", width)
        for kind in (*KINDS, REST)
    ]  # fmt: skip
