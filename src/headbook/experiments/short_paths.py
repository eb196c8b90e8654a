"""Networks of attention and skips learn small tasks, and their paths answer alone (page 46).

Dong, Cordonnier and Loukas 2021, the experiment on the effectiveness of paths: in every layer a
path takes the skip or one head. The published table, four tasks with three seeds, took a quarter of
an hour on one core.
"""

import random
from collections.abc import Iterable

import pandas as pd
import torch
from scipy.spatial import ConvexHull
from torch import Tensor
from torch.nn import functional

from headbook.experiments.learning import descent, rise_and_fall
from headbook.models.attention_only import SKIP, AttentionOnly
from headbook.results import cached
from headbook.runs.seeds import derived

LAYERS = 6
Labelled = tuple[Tensor, Tensor]
"""Vectors [row, place, feature] and the class of each place [row, place]."""


def sorting(rows: int, noise: torch.Generator) -> Labelled:
    """Eight digits as one-hot vectors; the label of place i is the i-th smallest."""
    drawn = torch.randint(10, (rows, 8), generator=noise)
    return functional.one_hot(drawn, 10).float(), drawn.sort(1).values


def convex_hull(rows: int, noise: torch.Generator) -> Labelled:
    """Ten points of a shifted square; 1 for corners of their hull."""
    points = 10 * torch.rand(rows, 10, 2, generator=noise)
    points = points + 3.3 * torch.randn(rows, 1, 2, generator=noise)
    labels = torch.zeros(rows, 10, dtype=torch.long)
    for row, found in zip(points.tolist(), labels, strict=True):
        found[ConvexHull(row).vertices] = 1
    return points / 5 - 1, labels


def memorising(rows: int, noise: torch.Generator) -> Labelled:
    """Rows of always the same hundred sequences of ten words, with random labels of 0 or 1."""
    fixed = torch.Generator().manual_seed(0)
    drawn = torch.randint(50, (100, 10), generator=fixed)
    labels = torch.randint(2, (100, 10), generator=fixed)
    chosen = torch.randint(100, (rows,), generator=noise)
    return functional.one_hot(drawn[chosen], 50).float(), labels[chosen]


def following(rows: int, noise: torch.Generator) -> Labelled:
    """A pointer per place; the label is where three steps from there lead. Ours, not the work's."""
    pointers = torch.randint(8, (rows, 8), generator=noise)
    return functional.one_hot(pointers, 8).float(), pointers.gather(1, pointers.gather(1, pointers))


TASKS = {
    "memorising": (memorising, 2, 48, 2),
    "sorting": (sorting, 10, 48, 2),
    "convex hull": (convex_hull, 2, 84, 3),
    "following pointers": (following, 8, 48, 2),
}
"""Draw, classes, width and heads: the work's for sorting and hull, sorting's for the others."""


def train(task: str, seed: int, updates: int) -> AttentionOnly:
    """Adam, warmed up over a tenth of the updates, then lowered to zero; untrained without any."""
    (inputs, labels), (_, classes, *shape) = drawn(task, 10_000, seed, "pool"), TASKS[task]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "initial weights"))
        model = AttentionOnly(inputs.shape[2], classes, inputs.shape[1], *shape, LAYERS)
    rate = rise_and_fall(updates, max(1, updates // 10))
    descend = descent(model.parameters(), rate, clip=1.0, lr=2e-3)
    order = torch.Generator().manual_seed(derived(seed, "batches"))
    for _ in range(updates):
        chosen = torch.randint(len(labels), (64,), generator=order)
        logits = model(inputs[chosen]).flatten(0, 1)
        descend(functional.cross_entropy(logits, labels[chosen].flatten()))
    return model


def drawn(task: str, rows: int, seed: int, purpose: str) -> Labelled:
    """Rows of the task for this purpose: "pool" to learn from, "test" to answer."""
    return TASKS[task][0](rows, torch.Generator().manual_seed(derived(seed, purpose)))


def random_path(length: int, heads: int, noise: random.Random) -> list[int]:
    """A head in `length` random layers, and the skip in the others."""
    path = [SKIP] * LAYERS
    for layer in noise.sample(range(LAYERS), length):
        path[layer] = noise.randrange(heads)
    return path


@torch.no_grad()
def answers(task: str, seed: int, updates: int, tested: int = 500, draws: int = 10) -> pd.DataFrame:
    """Share of right labels: of the whole network, and by length of paths, without training, too.

    "along": five random paths of a length, their states added, as in the authors' code, mean of
    `draws`; "held": all paths of a length, the whole network's weights held; "up to" that length;
    "without" that length. Length −1 is the whole network, and the most frequent label.
    """
    inputs, labels = drawn(task, tested, seed, "test")
    common = float((labels == labels.flatten().mode().values).double().mean())
    rows = [("most frequent", -1, common)]
    for updates_of, name in ((updates, ""), (0, ", untrained")):
        with torch.enable_grad():
            model = train(task, seed, updates_of)

        def right(states: Tensor, model: AttentionOnly = model) -> float:
            return float((model.read(states).argmax(-1) == labels).double().mean())

        parts, noise = model.by_length(inputs), random.Random(derived(seed, "paths"))
        rows.append((f"whole{name}", -1, right(parts.sum(0))))
        for length in range(LAYERS + 1):
            scores = []
            for _ in range(draws):
                paths = [random_path(length, model.layers[0].heads, noise) for _ in range(5)]
                scores.append(right(sum(model.along(inputs, path) for path in paths)))
            rows.append((f"along{name}", length, sum(scores) / draws))
            rows.append((f"held{name}", length, right(parts[length])))
            rows.append((f"up to{name}", length, right(parts[: length + 1].sum(0))))
            rows.append((f"without{name}", length, right(parts.sum(0) - parts[length])))
    found = pd.DataFrame(rows, columns=["by", "length", "right"])
    return found.assign(task=task, seed=seed, updates=updates)


def sweep(tasks: Iterable[str]) -> pd.DataFrame:
    """The answers for each task and three seeds; each is trained once and kept."""
    runs = [{"task": task, "seed": seed} for task in tasks for seed in range(3)]
    found = [cached(answers, updates=1000, **run) for run in runs]
    return pd.concat(found) if found else pd.DataFrame()
