"""The benchmark of a training step: what each way to make it quicker brings, as ratios of one run.

Batches that are on the device already, shapes that are few, a compiled step, one that is captured
as a CUDA graph, and the fused optimiser that trainings have.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from headbook.bench import CONFIG, ENDS, Sizes, middle_and_ends, random_batches, trainer
from headbook.machine import accelerator
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import EOS, PAD, Batch
from headbook.timing import interleaved, seconds
from headbook.training.plan import measured_rate, operations

BUCKET = 16
"""Lengths are padded to multiples of it."""
Step = Callable[[Batch], object]
AS_IT_IS, SLOWER, THERE = "as it is", "optimiser not fused", "batches on the device"
CHANGED = ("+ few shapes", "+ compiled", "+ CUDA graphs")
SHARE = "share of the rate of matrix products"


def in_bucket(batch: Batch, tokens: int) -> Batch:
    """The batch in one of few shapes: both sides of one length, a multiple of BUCKET, and as many
    sentences as fit, the last of which may be empty: nothing is predicted in them."""
    longest = max(batch.source.shape[1], batch.target_in.shape[1])
    length = BUCKET * -(-longest // BUCKET)
    rows = max(tokens // length, len(batch))

    def filled(ids: Int[Tensor, "batch token"], first: int) -> Int[Tensor, "row length"]:
        wide = functional.pad(ids, (0, length - ids.shape[1], 0, rows - len(ids)), value=PAD)
        wide[len(ids) :, 0] = first
        return wide

    sides = filled(batch.source, EOS), filled(batch.target_in, PAD), filled(batch.target_out, PAD)
    return Batch(*sides, functional.pad(batch.sentences, (0, rows - len(batch))))


def by_hand(config: TransformerConfig, mode: str | None) -> Step:
    """A step without the training loop around it, compiled in a mode of `torch.compile`."""
    made = trainer(Transformer, config)
    model, smoothing = made.model.train(), made.config.label_smoothing

    def loss(source: Tensor, target_in: Tensor, target_out: Tensor) -> Tensor:
        real = (source != PAD)[:, None, None, :]
        memory = model.encoded_from(0, model.embedded_source(source), real)
        logits = model.logits(model.decode(target_in, memory, real)).float().flatten(0, 1)
        given = {"ignore_index": PAD, "label_smoothing": smoothing}
        return functional.cross_entropy(logits, target_out.flatten(), **given)

    if mode is not None:
        loss = torch.compile(loss, mode=mode, dynamic=False, fullgraph=True)

    def step(batch: Batch) -> None:
        torch.compiler.cudagraph_mark_step_begin()  # what the last step gave is used up
        with made.fabric.autocast():
            found = loss(batch.source, batch.target_in, batch.target_out)
        found.backward()
        made.optimiser.step()
        made.optimiser.zero_grad()

    return step


def steps(config: TransformerConfig) -> dict[str, Step]:
    """The step that trainings make, and changed ones; a change with + stands on those before it."""
    usual, slower, there = (trainer(Transformer, config) for _ in range(3))
    slower.optimiser = torch.optim.Adam(slower.model.parameters(), fused=False)
    modes = (None, "default") if accelerator() == "cpu" else (None, "default", "reduce-overhead")
    changed = [by_hand(config, mode) for mode in modes]
    made = {AS_IT_IS: usual._update, SLOWER: slower._update, THERE: there._update}
    return made | dict(zip(CHANGED, changed, strict=False))


def timed(step: Step, batches: Sequence[Batch], number: int) -> float:
    return seconds(lambda: step(batches[number]))


def bench(
    rounds: int = 5, widths: tuple[int, ...] = (256, 512), sizes: Sizes | None = None
) -> pd.DataFrame:
    """One row per step, width and quantity: median over the rounds, lowest and highest.

    Speed is that of the step over the one as it is, on the same sentences; the share is of this
    machine's rate, padding not counted.
    """
    sizes = sizes or Sizes(vocabulary=8000, tokens=2048 if accelerator() == "cpu" else 32768)
    here, rows = random_batches(sizes, rounds + 1), []
    there = [batch.to(accelerator()) for batch in here]
    few = [in_bucket(batch, sizes.tokens) for batch in there]
    rate = 1e9 * measured_rate(CONFIG.precision)
    for width in widths:
        with torch.device("meta"):
            shape = Transformer(config := sizes.model(width))
        work = np.array([operations(shape, batch) for batch in here])
        works = {}
        for name, step in steps(config).items():
            given = few if name.startswith("+") else there if name == THERE else here
            for batch in tqdm(given, f"warming up, width {width}, {name}"):  # compiles every shape
                step(batch)
            works[name] = partial(timed, step, given)
        taken = interleaved(works, rounds, f"width {width}")
        for name, each in taken.items():
            speed = np.array(taken[AS_IT_IS]) / each
            for quantity, found in {"speed": speed, SHARE: work[1:] / rate / each}.items():
                rows.append((name, width, quantity, *middle_and_ends(found)))
    return pd.DataFrame(rows, columns=["step", "width", "quantity", *ENDS])
