"""A training that is killed ends bit for bit as one that never was."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("killable.py")
PLACES = ("forward", "optimiser", "before-save", "half-written", "before-rename")
UPDATES = 24


KILLED = -signal.SIGKILL


def run(folder: Path, *orders: str) -> list[int]:
    """How the processes ended that trained in `folder` one after the other."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), str(folder), *orders]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [int(status) for status in done.stdout.split()]


def contents(path: Path) -> tuple[dict[str, torch.Tensor], dict]:
    """Tensors and note of a file, wall-clock seconds left out."""
    with safe_open(path, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        note = json.loads(opened.metadata()["note"])
    for row in [note, *note.get("curve", [])]:
        row.pop("seconds", None)
    return tensors, note


def assert_same(one: Path, other: Path) -> None:
    """The two folders hold the same models, optimiser, random state, place and curve."""
    names = sorted(path.name for path in one.glob("*.safetensors"))
    assert names == sorted(path.name for path in other.glob("*.safetensors"))
    assert {"best.safetensors", "state.safetensors", f"snapshot-{UPDATES:07d}.safetensors"} <= {
        *names
    }
    for name in names:
        (first, first_note), (second, second_note) = contents(one / name), contents(other / name)
        assert first_note == second_note, name
        assert first.keys() == second.keys(), name
        different = [key for key in first if not torch.equal(first[key], second[key])]
        assert not different, (name, different)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    assert run(folder, "finish") == [0]
    return folder


@pytest.mark.parametrize("seed", [0, 1])
def test_three_kills_at_random_change_no_bit(unbroken: Path, tmp_path: Path, seed: int):
    chance = random.Random(seed)
    updates = sorted(chance.sample(range(1, UPDATES), 3))
    orders = [f"{chance.choice(PLACES)}:{update}" for update in updates]
    assert run(tmp_path, *orders, "finish") == [KILLED, KILLED, KILLED, 0]
    assert_same(unbroken, tmp_path)


def test_a_kill_while_writing_leaves_the_previous_checkpoint(unbroken: Path, tmp_path: Path):
    # Update 3 takes no snapshot and no validation: what is being written is the state.
    assert run(tmp_path, "half-written:3") == [KILLED]
    assert (tmp_path / "state.aside").exists()
    _, note = contents(tmp_path / "state.safetensors")
    assert note["update"] == 2
    assert run(tmp_path, "finish") == [0]
    assert_same(unbroken, tmp_path)


def test_a_lost_random_state_would_be_seen(unbroken: Path, tmp_path: Path):
    """Plants the fault the comparison is there for: dropout that goes on from another place."""
    from safetensors.torch import save_file

    assert run(tmp_path, "forward:6") == [KILLED]
    state = tmp_path / "state.safetensors"
    with safe_open(state, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        metadata = opened.metadata()
    torch.manual_seed(5)
    save_file(tensors | {"random": torch.get_rng_state()}, state, metadata=metadata)
    assert run(tmp_path, "finish") == [0]
    with pytest.raises(AssertionError):
        assert_same(unbroken, tmp_path)
