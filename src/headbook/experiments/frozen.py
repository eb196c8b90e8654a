"""A frozen encoder with new ends learns small tasks that are no text (page 47).

Lu et al. 2021 at one learning rate, Rothermel et al. 2021 at a swept one. The 240 published
trainings took between two seconds and two minutes each on one core, an hour and a half together;
their products are in bfloat16, where a processor has it.
"""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.corpora.small_tasks import UNASKED, Split, task
from headbook.experiments.learning import descent
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.load import load
from headbook.machine import multiplies_bfloat16
from headbook.models.new_ends import NewEnds
from headbook.runs.seeds import derived


@dataclass(frozen=True, kw_only=True)
class Training:
    """One network on one task at one learning rate.

    Weights between the ends `start` as "trained", "redrawn" (matrices drawn anew with their own
    mean and spread) or from "scratch". `trainable` is a part of `NewEnds.parts`.
    """

    model: str = "minilm"
    task: str
    start: str = "trained"
    trainable: str
    rate: float
    seed: int = 0
    shuffled: bool = False  # labels of the training rows, as a control
    layers: int = 2
    updates: int = 250

    @contextmanager
    def network(self) -> Iterator[NewEnds]:
        """The network before its first update."""
        found, given = task(self.task), load(self.model).network
        given = copy.deepcopy(getattr(given, "model", given))  # of transformers, or of ours
        if hasattr(given, "set_attn_implementation"):  # without the recorder, faster
            given.set_attn_implementation("sdpa")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(self.seed, "new layers"))
            own = type(given)(given.config) if self.start == "scratch" else given
            ends = found.features, found.classes, found.positions, found.each
            model = NewEnds(own, self.layers, *ends).eval()
        null = without_knowledge(model.body, Null.DRAWN, derived(self.seed, "matrices"))
        with null if self.start == "redrawn" else nullcontext():
            yield model


def train(model: NewEnds, asked: Training) -> pd.DataFrame:
    """Adam at a constant rate, without dropout, until validation is perfect or to the last update.

    One row: accuracy where it is best on the validation split, of evaluations fifty updates apart.
    """
    found, chosen = task(asked.task), model.parts()[asked.trainable]
    model.requires_grad_(False)
    for each in chosen:
        each.requires_grad_(True)
    split = found.train
    if asked.shuffled:
        noise = torch.Generator().manual_seed(derived(asked.seed, "shuffled labels"))
        split = replace(split, labels=split.labels[torch.randperm(len(split), generator=noise)])
    descend = descent(chosen, clip=1.0, lr=asked.rate)
    order, step, last = batches(len(split), asked.seed), 0, evaluated(model, found.validation)
    best = (*last, evaluated(model, found.test)[0])
    for step in range(1, asked.updates + 1):
        if not math.isfinite(descend(answered(model, split, next(order))[1])):
            last = (math.nan, math.nan)
            break
        if step % 50 == 0 or step == asked.updates:
            last = evaluated(model, found.validation)
            if (last[0], -last[1]) > (best[0], -best[1]):  # never of NaN
                best = (*last, evaluated(model, found.test)[0])
            if best[0] == 1.0:
                break
    share = sum(each.numel() for each in chosen) / sum(each.numel() for each in model.parameters())
    names = "validation", "loss", "test", "last", "steps", "tuned", "majority"
    outcome = dict(zip(names, (*best, last[0], step, share, found.majority), strict=True))
    return pd.DataFrame([asdict(asked) | outcome])


def answered(model: NewEnds, part: Split, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of these rows, and the loss in nats, mean over what is asked for."""
    with torch.autocast("cpu", torch.bfloat16, enabled=multiplies_bfloat16()):
        states = model.read(part.inputs[rows], part.real[rows])
    logits, labels = model.answer(states), part.labels[rows].flatten()
    return logits, cross_entropy(logits.flatten(0, 1), labels, ignore_index=UNASKED)


@torch.no_grad()
def evaluated(model: NewEnds, part: Split) -> tuple[float, float]:
    """Share of what is asked for that is right, NaN of a broken network, and loss in nats."""
    logits, loss = answered(model, part, torch.arange(len(part)))
    right = (logits.argmax(-1) == part.labels)[part.labels != UNASKED].double().mean()
    return float(right) if logits.isfinite().all() else math.nan, float(loss)


def batches(rows: int, seed: int, size: int = 16) -> Iterator[Tensor]:
    """Rows of one update after the other; those left over of an epoch are drawn again."""
    generator = torch.Generator().manual_seed(derived(seed, "order"))
    while True:
        yield from torch.randperm(rows, generator=generator)[: rows // size * size].split(size)


def tuned(**asked: object) -> pd.DataFrame:
    """The row of one training by the fields of `Training`."""
    with (training := Training(**asked)).network() as model:
        return train(model, training)
