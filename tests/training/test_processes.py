"""Several processes train as one does; when one is killed, none hangs.

What they do is in several_processes.py, which torchrun's program starts on this machine without a
network.
"""

import json
import math
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
from small import write_corpus
from torch import Tensor

from headbook.training import processes

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
SCRIPT = HERE / "several_processes.py"
SCRIPTED = runpy.run_path(str(SCRIPT))
CLOSE = {"rtol": 1e-5, "atol": 1e-6}
"""Sums of 32 bits in another order, over eight updates; the planted faults move losses by 1e-2."""
GONE = "headbook: another process stopped; start the same command again, it resumes at update "


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


def assert_close(one: Path, other: Path) -> None:
    """The two trainings ended with the same weights, moments, place and curve."""
    (tensors, note), (other_tensors, other_note) = map(
        contents, (one / "state.safetensors", other / "state.safetensors")
    )
    curve, other_curve = (pd.DataFrame(each.pop("curve")) for each in (note, other_note))
    pd.testing.assert_frame_equal(
        curve, other_curve, rtol=CLOSE["rtol"], atol=CLOSE["atol"], check_exact=False
    )
    assert note == pytest.approx(other_note, rel=CLOSE["rtol"])
    torch.testing.assert_close(tensors, other_tensors, **CLOSE)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process makes."""
    folder = tmp_path_factory.mktemp("one")
    SCRIPTED["train"](folder / "train")
    return folder


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, torchrun: Callable
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """What two processes make, with and without planted faults; at last one of them is killed."""
    folder = tmp_path_factory.mktemp("two")
    write_corpus(folder / "corpus")
    done = torchrun(
        folder, "train", "train:own-tokens", "train:addition-twice",
        "stage:unbroken", "stage:broken:1:3",
    )  # fmt: skip
    assert done.stdout.count("tiny: trained") == 1, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def two(both: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    return both[0]


def test_two_processes_train_as_one(one: Path, two: Path):
    assert_close(one / "train", two / "train")
    files = [sorted(path.name for path in (each / "train").iterdir()) for each in (one, two)]
    assert files[0] == files[1]
    for name in files[0]:
        torch.testing.assert_close(
            contents(one / "train" / name)[0], contents(two / "train" / name)[0], **CLOSE
        )


@pytest.mark.parametrize("fault", ["own-tokens", "addition-twice"])
def test_a_planted_fault_is_seen(one: Path, two: Path, fault: str):
    with pytest.raises(AssertionError):
        assert_close(one / "train", two / f"train-{fault}")


def kept(store: Path) -> int:
    """The update of the checkpoint in the store's unfinished run."""
    (state,) = (store / "model").glob("*.partial/state.safetensors")
    return contents(state)[1]["update"]


def assert_gone(done: subprocess.CompletedProcess[str], store: Path) -> None:
    """One line of the process that is left, and no trace of its own."""
    assert done.returncode != 0
    lines = re.findall("headbook: .*", done.stderr)  # perhaps behind a killed progress bar
    assert lines == [f"{GONE}{kept(store)}"], done.stderr
    assert re.search("process [01] ends with 2", done.stderr), done.stderr
    assert "[rank" not in done.stderr, done.stderr


def results(store: Path) -> dict[str, object]:
    """Every file of the one finished run but its record; the curve without its seconds."""
    (record,) = (store / "model").glob("*/run.json")
    files: dict[str, object] = {
        path.name: path.read_bytes() for path in record.parent.iterdir() if path != record
    }
    curve = pd.read_csv(record.parent / "curve.csv").drop(columns="seconds")
    return files | {"curve.csv": curve.to_csv()}


@pytest.fixture(scope="module")
def resumed(both: tuple, torchrun: Callable) -> subprocess.CompletedProcess[str]:
    """The broken training goes on: the other process is killed, then it ends."""
    folder, done = both
    store = folder / "broken"
    assert_gone(done, store)
    assert 2 <= kept(store) <= 3
    assert_gone(torchrun(folder, "stage:broken:0:5"), store)
    assert 4 <= kept(store) <= 5
    return torchrun(folder, "stage:broken")


def test_a_killed_process_takes_the_other_along_and_nothing_is_lost(
    resumed: subprocess.CompletedProcess[str], two: Path
):
    """With dropout: all random states are in the checkpoint, so not a bit changes."""
    assert results(two / "broken") == results(two / "unbroken"), resumed.stderr
    assert not list((two / "broken" / "model").glob("*.partial"))


def clocked(monkeypatch: pytest.MonkeyPatch, clock: processes.Clock, *times: float) -> list[str]:
    """What is due at these seconds."""
    found = []
    for now in times:
        monkeypatch.setattr(processes.time, "monotonic", lambda now=now: now)
        found.append(clock.due().name)
    monkeypatch.undo()
    return found


def test_a_checkpoint_is_due_when_the_last_is_old_enough(monkeypatch: pytest.MonkeyPatch):
    clock = processes.Clock(save_every=10.0, passed=0.0, saved=0.0)
    due = clocked(monkeypatch, clock, 4, 10, 11, 20, 22)
    assert due == ["NOTHING", "NOTHING", "SAVE", "NOTHING", "SAVE"]


def test_it_stops_while_the_longest_update_and_saving_it_still_fit(monkeypatch: pytest.MonkeyPatch):
    clock = processes.Clock(save_every=math.inf, deadline=100.0, passed=0.0, saved=0.0)
    # The longest of them took 20 seconds: after 60 there is no room for two of those.
    assert clocked(monkeypatch, clock, 5, 25, 45, 59, 60) == [*["NOTHING"] * 4, "STOP"]
