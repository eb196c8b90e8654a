"""What several processes do together; torchrun starts this file, a test looks at what is left.

`python -m torch.distributed.run ... several_processes.py FOLDER WORK ...`: one piece of work after
the other. `NAME:STORE` and `NAME:STORE:RANK:UPDATE` ask the run store in FOLDER/STORE for a model,
SIGKILL striking the process RANK in UPDATE.
"""

import os
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer

from headbook.one_line import one_line_errors
from headbook.runs.store import Store
from headbook.text.batches import Batch
from headbook.training import processes
from headbook.training import train as trainings
from headbook.training.loop import Trainer
from headbook.training.models import Run

sys.path.append(str(Path(__file__).parents[1]))  # it is run by its path
from small import masked_run, translation_run


def runs(folder: Path) -> dict[str, Run]:
    """Eight updates each, with dropout and without.

    Without, most batches are one sentence, of which a process has none, and a parameter has no
    gradient, as nothing is decoded. Adam's epsilon is large: it would else make a step of a
    gradient that is nothing but rounding.
    """
    found, text = masked_run(folder / "corpus"), translation_run(folder / "corpus", 8, dropout=0.0)
    training = replace(text.training, tokens=20, epsilon=1e-2)
    plain = replace(found, text=text, training=training)
    return {"plain": plain, "tiny": replace(text, dropout=0.2)}


def strike(rank: int, update: int) -> None:
    """Puts SIGKILL in the way of one process."""
    step = Trainer._update

    def deadly(self: Trainer, batch: Batch) -> float:
        if (processes.rank(), self.progress.update) == (rank, update):
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, batch)

    Trainer._update = deadly


def work(folder: Path, name: str, store: str, *killed: str) -> None:
    """A checkpoint after every update; one line where a process is gone."""
    trainings.run = runs(folder).__getitem__
    trainings.Trainer = partial(Trainer, save_every=-1.0)
    if killed:
        strike(*map(int, killed))
    with one_line_errors():
        trainings.train_missing([name], Store(folder / store), print)


if __name__ == "__main__":
    place, *pieces = sys.argv[1:]
    for piece in pieces:
        try:
            work(Path(place), *piece.split(":"))
        except typer.Exit as end:
            # torchrun tells the status of the first one alone that ended
            print("process", processes.rank(), "ends with", end.exit_code, file=sys.stderr)
            sys.exit(end.exit_code)
