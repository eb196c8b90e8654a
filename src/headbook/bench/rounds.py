"""Times in interleaved rounds, compared by the median of each round's ratio.

Another process that takes the machine for a while then slows all contestants, not one of them.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from tqdm import tqdm


@dataclass(frozen=True)
class Spread:
    """A median over the rounds, and the extremes."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(*(float(found(values)) for found in (np.median, np.min, np.max)))


class LeftOutError(Exception):
    """A contestant that cannot run on this machine; the text says why."""


Name = TypeVar("Name", bound=Hashable)
Timed = Callable[[int], float]
"""Does the work of one round and returns the seconds it took."""


def interleaved(works: Mapping[Name, Timed], rounds: int, title: str) -> dict[Name, list[float]]:
    """Seconds of each work in each round, A B A B; a first round warms up and is not counted."""
    taken: dict[Name, list[float]] = {name: [] for name in works}
    for number in tqdm(range(rounds + 1), desc=title, unit="round"):
        for name, work in works.items():
            taken[name].append(work(number))
    return {name: each[1:] for name, each in taken.items()}


def ratio(slower: Sequence[float], quicker: Sequence[float]) -> Spread:
    """Ratio of the first's time to the second's, round by round."""
    return Spread.of([one / two for one, two in zip(slower, quicker, strict=True)])
