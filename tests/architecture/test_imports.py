"""Importing headbook does nothing but import."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from headbook.chapters.chapter import chapters as chapters_of_the_book

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
"""

NOT_THERE = (
    "IPython", "beartype", "hypothesis", "ipykernel", "jupyter_book", "latex2mathml", "nbclient",
    "papermill", "pytest", "spacy", "sphinx", "thinc",
)  # fmt: skip
"""What a bare GPU machine has not got and the README does not carry there."""
WITHOUT = """
import sys
from importlib import import_module

class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError("there is no " + name, name=name)

sys.meta_path.insert(0, NotThere())
for module in {modules!r}:
    import_module(module)
"""


def _run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    named = {"HEADBOOK_RUNS": "runs", "HEADBOOK_DOWNLOADS": "downloads"}
    environment = os.environ | {key: str(folder / value) for key, value in named.items()}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=environment
    )


@pytest.mark.parametrize("module", ["headbook", "headbook.cli", "headbook.publishing.book"])
def test_the_command_line_starts_without_the_heavy_libraries(module: str, tmp_path: Path) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = _run(code, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_importing_every_module_has_no_side_effect(tmp_path: Path) -> None:
    """Nothing is printed, either: warnings would stand on the terminal of `make book`."""
    done = _run(EVERYTHING, tmp_path)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert not list(tmp_path.iterdir())


def test_every_page_computes_without_what_parses_and_shows(tmp_path: Path) -> None:
    pages = [chapter.compute.__module__ for chapter in chapters_of_the_book()]
    code = WITHOUT.format(absent=NOT_THERE, modules=["headbook.cli", *pages])
    done = _run(code, tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_is_needed_there_would_be_missed(tmp_path: Path) -> None:
    code = WITHOUT.format(absent=("typer",), modules=["headbook.cli"])
    assert "there is no typer" in _run(code, tmp_path).stderr
    assert [name for name in NOT_THERE if find_spec(name) is None] == []


def test_the_package_is_the_one_of_this_checkout() -> None:
    assert Path(__file__).is_relative_to(paths.REPOSITORY)
