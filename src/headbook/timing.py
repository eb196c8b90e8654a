"""Durations, taken in interleaved rounds: what slows the machine for a while slows all alike."""

import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import torch
from tqdm import tqdm

Name = TypeVar("Name", bound=Hashable)
Timed = Callable[[int], float]
"""Does the work of one round and returns the seconds it took."""


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of the work, until an accelerator is done with it too."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def interleaved(works: Mapping[Name, Timed], rounds: int, title: str) -> dict[Name, list[float]]:
    """Seconds of each work in each round, A B A B; a first round warms up and is not counted."""
    taken: dict[Name, list[float]] = {name: [] for name in works}
    for number in tqdm(range(rounds + 1), desc=title, unit="round"):
        for name, work in works.items():
            taken[name].append(work(number))
    return {name: each[1:] for name, each in taken.items()}
