"""Importing headbook does nothing but import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headbook import paths

pytestmark = pytest.mark.slow

HEAVY = {"torch", "spacy", "lightning", "transformers", "matplotlib", "pandas", "papermill"}
EVERYTHING = """
import importlib, pkgutil
import torch
state, threads = torch.get_rng_state(), torch.get_num_threads()
import headbook
for module in pkgutil.walk_packages(headbook.__path__, "headbook."):
    importlib.import_module(module.name)
assert torch.equal(state, torch.get_rng_state()), "the random state moved"
assert threads == torch.get_num_threads(), "the number of threads changed"
assert all(callable(getattr(headbook, name)) for name in headbook.__all__ if name != "plots")
"""


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    named = {"HEADBOOK_RUNS": "runs", "HEADBOOK_DOWNLOADS": "downloads"}
    environment = os.environ | {key: str(folder / value) for key, value in named.items()}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=environment
    )


@pytest.mark.parametrize("module", ["headbook", "headbook.cli"])
def test_the_command_line_starts_without_the_heavy_libraries(module: str, tmp_path: Path) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = _run(code, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_importing_every_module_has_no_side_effect(tmp_path: Path) -> None:
    """Nothing is printed, either: warnings would stand on the terminal of `make book`."""
    done = _run(EVERYTHING, tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_the_package_is_the_one_of_this_checkout() -> None:
    assert Path(__file__).is_relative_to(paths.REPOSITORY)
