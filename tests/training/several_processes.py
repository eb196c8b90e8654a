"""What several processes do together; torchrun starts this file, a test looks at what is left.

`python -m torch.distributed.run ... several_processes.py FOLDER WORK ...`: one piece of work after
the other. `train` trains a tiny model; `stage:STORE` and `stage:STORE:RANK:UPDATE` ask the run
store in FOLDER/STORE for a model, SIGKILL striking the process RANK in UPDATE.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import torch
import typer

from headbook.models import checkpoint
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.one_line import one_line_errors
from headbook.runs.store import Store
from headbook.text.batches import EOS, Batch, EncodedPair
from headbook.training import processes
from headbook.training import train as trainings
from headbook.training.config import Precision, TrainingConfig
from headbook.training.loop import Trainer

sys.path.append(str(Path(__file__).parents[1]))  # it is run by its path
from small import translation_run

UPDATES = 8
SHAPE = {"width": 16, "feed_forward": 32, "heads": 2}


def pairs(count: int, seed: int) -> list[EncodedPair]:
    """Copy task of ragged lengths, and one pair too long for any other to share its batch."""
    chance = torch.Generator().manual_seed(seed)
    lengths = [*torch.randint(1, 9, (count,), generator=chance).tolist(), 30]
    rows = [[*torch.randint(3, 20, (n,), generator=chance).tolist(), EOS] for n in lengths]
    return [(row, row) for row in rows]


def train(folder: Path) -> None:
    """Eight updates without dropout, in 32 bits, with a frozen parameter.

    Adam's epsilon is large: it would else make a step of a gradient that is nothing but rounding.
    """
    processes.connect()
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(20, 20, 1, 1, **SHAPE, dropout=0.0))
    network.target.requires_grad_(requires_grad=False)
    config = TrainingConfig(
        UPDATES, tokens=40, warmup=10, epsilon=1e-2, precision=Precision.FULL, validate_every=3,
        first_snapshot=4,
    )  # fmt: skip
    (folder / "train").mkdir(parents=True, exist_ok=True)
    made = Trainer(network, config, pairs(40, 1), pairs(12, 2), folder / "train")
    made.run()
    checkpoint.save_model(made.model, folder / f"weights-{processes.rank()}.safetensors")


def strike(rank: int, update: int) -> None:
    """Puts SIGKILL in the way of one process."""
    step = Trainer._update

    def deadly(self: Trainer, batch: Batch) -> float:
        if (processes.rank(), self.progress.update) == (rank, update):
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, batch)

    Trainer._update = deadly


def stage(folder: Path, store: str, *killed: str) -> None:
    """With dropout, a checkpoint after every update; one line where a process is gone."""
    run = translation_run(folder / "corpus", UPDATES, dropout=0.2)
    trainings.run = {"tiny": run}.__getitem__
    trainings.Trainer = partial(Trainer, save_every=-1.0)
    if killed:
        strike(*map(int, killed))
    with one_line_errors():
        trainings.train_missing(["tiny"], Store(folder / store), print)


if __name__ == "__main__":
    place, *pieces = sys.argv[1:]
    for piece in pieces:
        name, *how = piece.split(":")
        try:
            {"train": train, "stage": stage}[name](Path(place), *how)
        except typer.Exit as end:
            # torchrun tells the status of the first one alone that ended
            print("process", processes.rank(), "ends with", end.exit_code, file=sys.stderr)
            sys.exit(end.exit_code)
