"""A training that is killed ends bit for bit as one that never was."""

import json
import random
import shutil
import signal
from pathlib import Path

import pytest
import torch
from forking import Program
from safetensors import safe_open
from safetensors.torch import save_file

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("killable.py")
PLACES = ("forward", "optimiser", "before-save", "half-written", "before-rename")
BROKEN = ("struck", "half", "lost")
UPDATES = 24


KILLED = -signal.SIGKILL


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


def lose_the_random_state(state: Path) -> None:
    """Plants the fault the comparison is there for: dropout that goes on from another place."""
    with safe_open(state, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        metadata = opened.metadata()
    torch.manual_seed(5)
    save_file(tensors | {"random": torch.get_rng_state()}, state, metadata=metadata)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings that ended, in folders by what happened to them; `aside` as a kill left it."""
    folder = tmp_path_factory.mktemp("ended")
    unbroken, struck, half, lost = (folder / name for name in ("unbroken", *BROKEN))
    chance = random.Random(0)
    updates = sorted(chance.sample(range(1, UPDATES), len(PLACES)))
    places = chance.sample(PLACES, len(PLACES))
    kills = [f"{place}:{update}" for place, update in zip(places, updates, strict=True)]
    with Program.of_script(SCRIPT, "train") as program:

        def status(where: Path, order: str) -> int:
            return program.run([str(where), order], folder).returncode

        assert status(unbroken, "finish") == 0
        # Update 3 takes no snapshot and no validation: what is being written is the state.
        assert status(half, "half-written:3") == status(lost, "forward:6") == KILLED
        assert [status(struck, order) for order in kills] == [KILLED] * len(kills)
        shutil.copytree(half, folder / "aside")
        lose_the_random_state(lost / "state.safetensors")
        assert [status(where, "finish") for where in (struck, half, lost)] == [0, 0, 0]
    return folder


def test_kills_at_every_place_change_no_bit(ended: Path):
    assert_same(ended / "unbroken", ended / "struck")


def test_a_kill_while_writing_leaves_the_previous_checkpoint(ended: Path):
    assert (ended / "aside" / "state.aside").exists()
    _, note = contents(ended / "aside" / "state.safetensors")
    assert note["update"] == 2
    assert_same(ended / "unbroken", ended / "half")


def test_a_lost_random_state_would_be_seen(ended: Path):
    with pytest.raises(AssertionError):
        assert_same(ended / "unbroken", ended / "lost")
