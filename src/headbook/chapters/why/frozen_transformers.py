"""Page 47: frozen networks with tuned norms on other tasks (Lu et al. 2021; Rothermel et al.)."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

import pandas as pd

from headbook.artefacts.new_task import Start, Tuning, tuned
from headbook.chapters.chapter import Tables
from headbook.corpora.small_tasks import DIGITS, LISTOPS, XOR, task
from headbook.models.new_ends import Trainable
from headbook.runs.store import Store

NUMBER = 47
TITLE = "Is tuning the norms enough?"
WORK = "lu2021"
KEYS = ("task", "start", "trainable", "rate", "seed", "shuffled")

TASKS = (DIGITS, XOR, LISTOPS)
UNTUNED = 1e-3
"""Lu et al.'s one learning rate."""
RATES = (UNTUNED, 3e-4, 3e-3, 1e-2)
SEEDS = 3
UPDATES = {DIGITS: 250, XOR: 500, LISTOPS: 250}
SETS = {
    Start.TRAINED: tuple(Trainable),
    Start.REDRAWN: (Trainable.OUTPUT, Trainable.NORMS, Trainable.POSITIONS),
    Start.SCRATCH: (Trainable.ALL,),
}
"""What is trained from each start, at every rate with the first seed."""
FROZEN, FROZEN_REDRAWN = (Start.TRAINED, Trainable.POSITIONS), (Start.REDRAWN, Trainable.POSITIONS)
SCRATCH, FINE_TUNED = (Start.SCRATCH, Trainable.ALL), (Start.TRAINED, Trainable.ALL)
NORMS = (Start.TRAINED, Trainable.NORMS)
MAIN = (FROZEN, FROZEN_REDRAWN, SCRATCH, FINE_TUNED, NORMS)
"""With all seeds, at the untuned rate and at the best one."""


@dataclass(frozen=True)
class Parameters:
    """The first so many cells of the sweep are trained here, or found in the store; 0 is all."""

    cells: int = 2


def sweep(name: str) -> Iterator[Tuning]:
    """Every cell of a task with the first seed."""
    for rate in RATES:
        for start, sets in SETS.items():
            for each in sets:
                yield Tuning(name, start, each, rate, updates=UPDATES[name])


def further(name: str, rows: pd.DataFrame) -> Iterator[Tuning]:
    """The other seeds at the untuned and the chosen rate, and shuffled labels at the chosen one."""
    best = chosen(rows).set_index(["task", "start", "trainable"])["rate"]
    for start, each in MAIN:
        for rate in dict.fromkeys((UNTUNED, float(best[name, start, each]))):
            cell = Tuning(name, start, each, rate, updates=UPDATES[name])
            yield from (replace(cell, seed=seed) for seed in range(1, SEEDS))
    cell = Tuning(name, *FROZEN, float(best[name, *FROZEN]), updates=UPDATES[name])
    yield replace(cell, shuffled=True)


def compute(parameters: Parameters, store: Store) -> Tables:
    """One row per cell; and claims, where all of them were trained."""
    if parameters.cells:
        asked = [cell for name in TASKS for cell in sweep(name)]
        return {"cells": _rows(asked[: parameters.cells], store)}
    found = []
    for name in TASKS:
        rows = _rows(sweep(name), store)
        found += [rows, _rows(further(name, rows), store)]
    rows = pd.concat(found, ignore_index=True)
    return {"cells": rows}


def _rows(cells: Iterable[Tuning], store: Store) -> pd.DataFrame:
    found = []
    for cell in cells:
        row = {**asdict(cell), **asdict(tuned(cell, store)), "majority": task(cell.task).majority}
        found.append(row)
    return pd.DataFrame(found)


def chosen(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each task, start and set the row of the first seed with the best validation accuracy.

    Of equal ones the one with the lowest validation loss.
    """
    own = rows[(rows["seed"] == 0) & ~rows["shuffled"].astype(bool)]
    ordered = own.sort_values(["validation", "loss"], ascending=[False, True], kind="stable")
    return ordered.drop_duplicates(["task", "start", "trainable"]).sort_index()
