"""Some minutes on a GPU: trainings side by side, then each head out, and gates.

    python -m headbook.workflow.on_a_gpu russian build/gpu --minutes 10

`on_a_gpu.yml` beside this file has what there is to do. The folder gets all that pages 10 to 20 are
published from, to be carried home: `models`, weights of the trained models in 16 bits, for
data/models; `trained`, their learning curves and BLEU; and `runs`, a run store with what was
measured. The same folder given again goes on, and leaves out what is done.
"""

import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from headbook import paths, recipes
from headbook.experiments import heads_out, until_settled
from headbook.looking.load import load
from headbook.models.gates import all_heads
from headbook.one_line import one_line_errors
from headbook.runs.store import Store
from headbook.training.models import run
from headbook.training.train import folder_of
from headbook.types import UserError

OUT_AT_ONCE = min(os.cpu_count() or 1, 4)
"""Processes that take heads out of a model, while others prune."""
OUT_OF_TIME = 3
"""Status of a training that is to be gone on with."""
TO_TRAIN = 0.85
"""Of the time; what is left of it is for all else."""


def item(name: str) -> dict[str, Any]:
    """What there is to do of this name; UserError for none."""
    known = yaml.safe_load((Path(__file__).parent / "on_a_gpu.yml").read_text("utf-8"))
    if name not in known:
        raise UserError(f"there is no {name!r}: there are {', '.join(map(repr, known))}")
    return known[name]


def headbook(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "headbook", *arguments])


def trained(names: list[str], minutes: float, folder: Path) -> None:
    """Trains the models side by side; weights go to data/models and the folder."""
    under_way = [headbook("train", each, "--minutes", f"{minutes:.2f}") for each in names]
    ended = [each.wait() for each in under_way]
    if wrong := [name for name, status in zip(names, ended, strict=True)
                 if status not in (0, OUT_OF_TIME)]:  # fmt: skip
        raise UserError(f"{', '.join(wrong)} could not be trained: see above")
    for name in names:
        if headbook("publish", "--weights", name).wait():
            raise UserError(f"weights of {name} could not be written: see above")
        shutil.copytree(recipes.weights_folder(name), folder / "models" / name, dirs_exist_ok=True)
        if (made := folder_of(run(name), Store.default())) is not None:
            large = shutil.ignore_patterns("*.safetensors")
            shutil.copytree(made, folder / "trained" / name, ignore=large, dirs_exist_ok=True)


def taken_out(part: tuple[str, int, int], deadline: float) -> None:
    """A model translates so many sentences as it is and without each head: of these every n-th,
    from a first one on."""
    name, count, first = part
    heads = [[], *([head.label] for head in all_heads(load(name).network))]
    for head in heads[first::OUT_AT_ONCE]:
        if time.time() < deadline:
            heads_out.silenced(name, count, [head])


def main(
    asked: Annotated[str, typer.Argument(metavar="ITEM")],
    folder: Annotated[Path, typer.Argument(help="Gets the results.")],
    minutes: Annotated[float, typer.Option(help="Begin nothing after so many.")] = 10,
) -> None:
    """Trains, prunes and measures; see on_a_gpu.yml."""
    with one_line_errors():
        made(asked, folder, minutes)


def made(asked: str, folder: Path, minutes: float) -> None:
    """All of an item that begins within so many minutes."""
    began, todo = time.time(), item(asked)
    deadline = began + 60 * minutes
    if todo.get("train"):
        trained(todo["train"], TO_TRAIN * minutes, folder)
    # weights as they are published decide what is measured, not those of the run store
    measured = {"HEADBOOK_RUNS": str((folder / "runs").resolve())}
    tested = todo.get("tested", {}).items()
    parts = [(*each, first) for each in tested for first in range(OUT_AT_ONCE)]
    with (
        paths.with_variables(paths.variables() | measured),
        until_settled.side_by_side(OUT_AT_ONCE) as each_of,
    ):
        out = each_of(partial(taken_out, deadline=deadline), parts)
        for each in todo.get("sweeps", ()):
            trainings, _ = until_settled.sweep(minutes=(deadline - time.time()) / 60, **each)
            print(trainings.to_string(), flush=True)
        list(out)  # until all are done
    print(f"{asked}: {time.time() - began:.0f} s; results in {folder}")


if __name__ == "__main__":
    typer.run(main)
