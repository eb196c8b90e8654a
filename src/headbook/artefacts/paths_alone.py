"""The stage `paths`: a network of attention and skips learns a task, and its paths answer alone."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from headbook.corpora.sets import HULL, Labelled, task
from headbook.models.attention_only import SKIP, AttentionOnly
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store

PATHS = Stage("paths", version=1)
LAYERS, BATCH, POOL, TESTED = 6, 64, 10_000, 500
"""Layers, rows of an update, rows that are learnt from, fresh rows that are answered."""
WIDE, NARROW = (84, 3), (48, 2)
"""Width and heads: the work's for convex hull; its for sorting, used for the others, too."""
TOGETHER, DRAWS = 5, 10
"""Random paths of one length whose states are added, and how often."""
WHOLE, ALONG, HELD, UP_TO, WITHOUT = "whole", "along", "held", "up to", "without"
"""How it is answered: by the whole network; from random paths of a length, weights computed along
them; with the whole network's weights held, from all paths of a length, up to it, of any other."""
FREQUENT, UNTRAINED = "most frequent", "untrained"
NO_LENGTH = -1


@dataclass(frozen=True)
class PathsRun:
    """A task by its name, how long it is learnt, and the seed of all of that."""

    task: str
    updates: int
    seed: int = 0
    rate: float = 2e-3


Answers = list[dict[str, object]]
"""One row per way of answering and length of paths: the share of labels that is right."""


def answered(run: PathsRun, store: Store) -> Answers:
    """Rows with `by`, `length` (or NO_LENGTH) and `right`, from the store or made now."""
    asked = Ingredients(PATHS, run, {}, {"device": "cpu"})

    def write(folder: Path) -> None:
        (folder / "answers.json").write_text(json.dumps(list(answers(run))))

    return json.loads((store.get(asked, write) / "answers.json").read_text())


def start(run: PathsRun) -> AttentionOnly:
    """The network before its first update."""
    draw, classes = task(run.task)
    time, features = draw(1, torch.Generator().manual_seed(0)).inputs.shape[1:]
    width, heads = WIDE if run.task == HULL else NARROW
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(run.seed, "initial weights"))
        return AttentionOnly(features, classes, time, width, heads, LAYERS)


def train(run: PathsRun) -> AttentionOnly:
    """Adam, warmed up over a tenth of the updates and then lowered to zero."""
    rows = _drawn(run, POOL, "pool")
    model = start(run)
    optimiser = torch.optim.Adam(model.parameters(), lr=run.rate, fused=True)
    warm = max(1, run.updates // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / warm, (run.updates - step) / (run.updates - warm))
    )
    order = torch.Generator().manual_seed(derived(run.seed, "batches"))
    for _ in tqdm(range(run.updates), desc=f"{run.task}, {run.seed}", mininterval=5):
        chosen = torch.randint(len(rows.labels), (BATCH,), generator=order)
        logits = model(rows.inputs[chosen])
        loss = cross_entropy(logits.flatten(0, 1), rows.labels[chosen].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model


def _drawn(run: PathsRun, rows: int, purpose: str) -> Labelled:
    """Rows of the task: for memorising the training rows, for any other task fresh ones."""
    draw, _ = task(run.task)
    return draw(rows, torch.Generator().manual_seed(derived(run.seed, purpose)))


@torch.no_grad()
def answers(run: PathsRun) -> Iterator[dict[str, object]]:
    """Answers of the trained network, whole and from paths of each length."""
    with torch.enable_grad():
        model = train(run)
    test = _drawn(run, TESTED, "test")
    frequent = test.labels.flatten().mode().values
    yield _row(FREQUENT, NO_LENGTH, (test.labels == frequent).double().mean())
    yield from _answers(model, test, run, "")
    yield from _answers(start(run), test, run, f", {UNTRAINED}")


def _answers(model: AttentionOnly, test: Labelled, run: PathsRun, suffix: str) -> Iterator[dict]:
    yield _row(WHOLE + suffix, NO_LENGTH, _right(model, model.states(test.inputs), test))
    parts = model.by_length(test.inputs)
    drawn = random.Random(derived(run.seed, "paths"))
    for length in range(LAYERS + 1):
        shares = [_right(model, _together(model, test, length, drawn), test) for _ in range(DRAWS)]
        yield _row(ALONG + suffix, length, torch.stack(shares).mean())
        for by, states in {HELD: parts[length], UP_TO: parts[: length + 1].sum(0),
                           WITHOUT: parts.sum(0) - parts[length]}.items():  # fmt: skip
            yield _row(by + suffix, length, _right(model, states, test))


def _together(model: AttentionOnly, test: Labelled, length: int, drawn: random.Random) -> Tensor:
    """States of random paths, added, as the authors' code does."""
    layers, heads = len(model.layers), model.layers[0].heads
    paths = [random_path(length, layers, heads, drawn) for _ in range(TOGETHER)]
    return torch.stack([model.along(test.inputs, path) for path in paths]).sum(0)


def random_path(length: int, layers: int, heads: int, drawn: random.Random) -> list[int]:
    """A head in `length` random layers, and the skip in the others."""
    path = [SKIP] * layers
    for layer in drawn.sample(range(layers), length):
        path[layer] = drawn.randrange(heads)
    return path


def _right(model: AttentionOnly, states: Tensor, test: Labelled) -> Tensor:
    return (model.read(states).argmax(-1) == test.labels).double().mean()


def _row(by: str, length: int, right: Tensor) -> dict[str, object]:
    return {"by": by, "length": length, "right": float(right)}
