"""Importing headbook does nothing but import."""

import subprocess
import sys
from pathlib import Path

import pytest
from forking import ends

HEAVY = {"torch", "spacy", "lightning_fabric", "transformers", "matplotlib", "pandas", "papermill"}
ANEW = """
import contextlib, importlib, io, os, pkgutil, sys, torch
for name in [each for each in sys.modules if each.partition(".")[0] == "headbook"]:
    del sys.modules[name]
state, threads, said = torch.get_rng_state(), torch.get_num_threads(), io.StringIO()
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    import headbook
    for module in pkgutil.walk_packages(headbook.__path__, "headbook."):
        importlib.import_module(module.name)
assert torch.equal(state, torch.get_rng_state()), "the random state moved"
assert threads == torch.get_num_threads(), "the number of threads changed"
assert not said.getvalue() and not os.listdir()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["headbook", "headbook.cli"])
def test_the_command_line_starts_without_the_heavy_libraries(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.slow
def test_importing_every_module_has_no_side_effect(tmp_path: Path) -> None:
    assert ends(ANEW, {}, tmp_path) == 0
