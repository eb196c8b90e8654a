"""Tasks on small sets, one label per position: sorting, convex hull, memorising (Dong et al. 2021).

As in the authors' code: eight digits and the digit that stands at each place once they are sorted;
ten points in the plane and whether each lies on their hull; random labels to be remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from scipy.spatial import ConvexHull
from torch import Tensor
from torch.nn import functional

from headbook.types import UserError

SORTING, HULL, MEMORISING = "sorting", "convex hull", "memorising"
FOLLOWING = "following pointers"
PLACES = 8
DIGITS, SORTED = 10, 8
POINTS, SIDE, SHIFT = 10, 10.0, 3.3
"""Points are uniform in a square, which is shifted by a normal step per set."""
REMEMBERED, TOKENS, WORDS = 100, 10, 50
"""Sequences to memorise, their length, and different words."""


@dataclass(frozen=True)
class Labelled:
    """Vectors of every position and the class of each."""

    inputs: Float[Tensor, "row time feature"]
    labels: Int[Tensor, "row time"]


Draw = Callable[[int, torch.Generator], Labelled]


def sorting(rows: int, generator: torch.Generator) -> Labelled:
    """Digits with repetitions as one-hot vectors; the label of place i is the i-th smallest."""
    drawn = torch.randint(DIGITS, (rows, SORTED), generator=generator)
    return Labelled(functional.one_hot(drawn, DIGITS).float(), drawn.sort(1).values)


def convex_hull(rows: int, generator: torch.Generator) -> Labelled:
    """Points, centred on the square and in units of half its side; 1 for corners of their hull."""
    points = SIDE * torch.rand(rows, POINTS, 2, generator=generator)
    points = points + SHIFT * torch.randn(rows, 1, 2, generator=generator)
    labels = torch.zeros(rows, POINTS, dtype=torch.long)
    for row, found in zip(points.tolist(), labels, strict=True):
        found[ConvexHull(row).vertices] = 1
    return Labelled(points * 2 / SIDE - 1, labels)


def memorising(rows: int, generator: torch.Generator) -> Labelled:
    """Sequences of words with a random label, 0 or 1, per position; always the same ones.

    `rows` of the REMEMBERED sequences are drawn with replacement.
    """
    fixed = torch.Generator().manual_seed(0)
    drawn = torch.randint(WORDS, (REMEMBERED, TOKENS), generator=fixed)
    labels = torch.randint(2, (REMEMBERED, TOKENS), generator=fixed)
    chosen = torch.randint(REMEMBERED, (rows,), generator=generator)
    return Labelled(functional.one_hot(drawn[chosen], WORDS).float(), labels[chosen])


def following(rows: int, generator: torch.Generator) -> Labelled:
    """A pointer per position, one-hot; the label is where three steps from there lead.

    One layer can read the pointer that a position points to. The third step needs a layer whose
    weights depend on what an earlier one has read. Ours, not the work's.
    """
    pointers = torch.randint(PLACES, (rows, PLACES), generator=generator)
    labels = pointers.gather(1, pointers.gather(1, pointers))
    return Labelled(functional.one_hot(pointers, PLACES).float(), labels)


TASKS: dict[str, tuple[Draw, int]] = {
    SORTING: (sorting, DIGITS),
    HULL: (convex_hull, 2),
    MEMORISING: (memorising, 2),
    FOLLOWING: (following, PLACES),
}
"""Each task's draw, and its number of classes."""


def task(name: str) -> tuple[Draw, int]:
    """A task by its name; UserError for another name."""
    if name not in TASKS:
        raise UserError(f"no task is called {name!r}; there are {', '.join(TASKS)}")
    return TASKS[name]
