"""Measuring under torchrun: each process takes its share of the batches, and the sums are added."""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path

import torch
from tqdm import tqdm

from headbook.corpora.batches import Batch
from headbook.heads.measure import RatioSums
from headbook.runs.store import Ingredients, Store
from headbook.training import processes


def kept_or_made(store: Store, asked: Ingredients, work: processes.Work) -> Path:
    """The run's folder in every process, from the store or from the work of all of them."""
    processes.connect()
    return processes.together(partial(store.get, asked), work)


def share_of(batches: list[Batch]) -> list[Batch]:
    """This process's batches; one without any takes the first, which gives its sums their shapes.

    `added` leaves those sums out.
    """
    return processes.mine(batches) or batches[:1]


def added(sums: Mapping[str, RatioSums], batches: list[Batch]) -> dict[str, RatioSums]:
    """Sums over all processes' shares of the batches; the same in each process."""
    parts = chain.from_iterable((each.numerator, each.denominator) for each in sums.values())
    if not processes.mine(batches):
        parts = map(torch.zeros_like, parts)
    totals = iter(processes.add_tensors(list(parts)))
    return {name: RatioSums(next(totals), next(totals)) for name in sums}


def bar(batches: list[Batch], what: str) -> tqdm:
    """The first process's alone."""
    hidden = not processes.is_first()
    return tqdm(batches, desc=what, unit="batch", mininterval=2, disable=hidden)
