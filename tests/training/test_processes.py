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
from safetensors.torch import load_file
from small import results, write_corpus

from headbook.runs.store import Store
from headbook.training.train import folder_of, trained

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SCRIPT = HERE / "several_processes.py"
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""Sums of 32 bits in another order, over eight updates."""
GONE = "headbook: another process stopped; start the same command again, it resumes from its last"
LOADED = f"""
import lightning_fabric, runpy
from torch.distributed.run import main
runpy.run_path({str(SCRIPT)!r})
"""


@pytest.fixture(scope="module")
def torchrun() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Starts two processes of one thread each with torchrun's program."""
    two = ("--standalone", "--nproc-per-node", "2", "--run-path", "--start-method", "fork")
    with Program(LOADED, "main") as program:
        yield lambda folder, *work: program.run([*two, str(SCRIPT), str(folder), *work], HERE)


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, torchrun: Callable
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """What two processes make; at last one of them is killed."""
    folder = tmp_path_factory.mktemp("two")
    write_corpus(folder / "corpus")
    done = torchrun(folder, "plain:unbroken", "tiny:unbroken", "tiny:broken:1:3")
    assert done.stdout.count("tiny: trained") == 1, done.stderr
    return folder, done


def test_two_processes_train_as_one(both: tuple, tmp_path: Path):
    """The same weights on the way and at the end, the same curve and score."""
    wanted = runpy.run_path(str(SCRIPT))["runs"](both[0])["plain"]
    one, two = trained(wanted, Store(tmp_path)), folder_of(wanted, Store(both[0] / "unbroken"))
    files = [sorted(path.name for path in each.iterdir()) for each in (one, two)]
    assert files[0] == files[1]
    for name in (each for each in files[0] if each.endswith(".safetensors")):
        torch.testing.assert_close(load_file(one / name), load_file(two / name), **CLOSE)
    curves = (pd.read_csv(each / "curve.csv").drop(columns="seconds") for each in (one, two))
    pd.testing.assert_frame_equal(*curves, **CLOSE)
    scores = [json.loads((each / "scores.json").read_text()) for each in (one, two)]
    assert scores[0] == pytest.approx(scores[1], rel=CLOSE["rtol"])


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
    with safe_open(state, framework="pt") as opened:
        assert 2 <= json.loads(opened.metadata()["note"])["update"] <= 3
    done = torchrun(folder, "tiny:broken")
    assert results(store) == results(folder / "unbroken"), done.stderr
    assert not list((store / "model").glob("*.partial"))
