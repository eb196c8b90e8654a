"""Several processes train as one does; when one is killed, none hangs.

What they do is in several_processes.py, which torchrun's program starts on this machine without a
network.
"""

import json
import re
import runpy
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
from forking import Program
from safetensors import safe_open
from small import results, write_corpus
from torch import Tensor

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SCRIPT = HERE / "several_processes.py"
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""Sums of 32 bits in another order, over eight updates."""
GONE = "headbook: another process stopped; start the same command again, it resumes from its last"
LOADED = f"""
import lightning.fabric, runpy
from torch.distributed.run import main
runpy.run_path({str(SCRIPT)!r})
"""


@pytest.fixture(scope="module")
def torchrun() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Starts two processes of one thread each with torchrun's program."""
    two = ("--standalone", "--nproc-per-node", "2", "--run-path", "--start-method", "fork")
    with Program(LOADED, "main") as program:
        yield lambda folder, *work: program.run([*two, str(SCRIPT), str(folder), *work], HERE)


def contents(path: Path) -> tuple[dict[str, Tensor], dict]:
    """Tensors and note of a file, wall-clock seconds and random states left out."""
    with safe_open(path, framework="pt") as opened:
        names = [name for name in opened.keys() if not name.startswith("random")]  # noqa: SIM118
        note = json.loads((opened.metadata() or {}).get("note", "{}"))
        tensors = {name: opened.get_tensor(name) for name in names}
    for row in [note, *note.get("curve", [])]:
        row.pop("seconds", None)
    return tensors, note


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, torchrun: Callable
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """What two processes make; at last one of them is killed."""
    folder = tmp_path_factory.mktemp("two")
    write_corpus(folder / "corpus")
    done = torchrun(folder, "train", "stage:unbroken", "stage:broken:1:3")
    assert done.stdout.count("tiny: trained") == 1, done.stderr
    return folder, done


def test_two_processes_train_as_one(both: tuple, tmp_path: Path):
    """The same weights, moments, place, curve and files."""
    runpy.run_path(str(SCRIPT))["train"](tmp_path)
    one, two = tmp_path / "train", both[0] / "train"
    files = [sorted(path.name for path in each.iterdir()) for each in (one, two)]
    assert files[0] == files[1] and "state.safetensors" in files[0]
    for name in files[0]:
        torch.testing.assert_close(contents(one / name)[0], contents(two / name)[0], **CLOSE)
    note, other = (contents(each / "state.safetensors")[1] for each in (one, two))
    curve, other_curve = (pd.DataFrame(each.pop("curve")) for each in (note, other))
    pd.testing.assert_frame_equal(
        curve, other_curve, rtol=CLOSE["rtol"], atol=CLOSE["atol"], check_exact=False
    )
    assert note == pytest.approx(other, rel=CLOSE["rtol"])
    ends = [contents(both[0] / f"weights-{rank}.safetensors")[0] for rank in (0, 1)]
    torch.testing.assert_close(*ends, rtol=0, atol=0)


def test_a_killed_process_takes_the_other_along_and_nothing_is_lost(
    both: tuple, torchrun: Callable
):
    """One line of the process that is left, and no trace of its own.

    With dropout: all random states are in the checkpoint, so not a bit changes.
    """
    folder, done = both
    store = folder / "broken"
    assert done.returncode != 0
    (line,) = re.findall("headbook: .*", done.stderr)  # perhaps behind a killed progress bar
    assert line.startswith(GONE) and "process 0 ends with 2" in done.stderr, done.stderr
    assert "[rank" not in done.stderr, done.stderr
    (state,) = (store / "model").glob("*.partial/state.safetensors")
    assert 2 <= contents(state)[1]["update"] <= 3
    done = torchrun(folder, "stage:broken")
    assert results(store) == results(folder / "unbroken"), done.stderr
    assert not list((store / "model").glob("*.partial"))
