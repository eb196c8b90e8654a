"""Every notebook runs at profile `smoke`, and refuses a parameter it does not know."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from headbook import paths
from headbook.publishing import notebooks
from headbook.publishing.notebooks import Executed
from headbook.publishing.templates import templates
from headbook.types import UserError

NAMES = sorted(path.stem for path in paths.NOTEBOOKS.glob("*.ipynb")) or ["no_notebooks"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_at_smoke(name: str, executed: Callable[[str], Executed]) -> None:
    outcome = executed(name)
    assert outcome.failure is None
    notebook = nbformat.read(outcome.path, as_version=4)
    assert outcome.profile == "smoke"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    kinds = {kind for cell in code for out in cell.outputs for kind in out.get("data", {})}
    assert kinds & {"text/html", "image/png", "image/svg+xml"}, "the page shows no figure"


def test_the_runner_refuses_a_misspelt_parameter(tmp_path: Path) -> None:
    for template in templates():
        with pytest.raises(UserError, match=rf"{template.name} has no .*'corpsu': it knows \w"):
            notebooks.attempt([template], "smoke", {"corpsu": "x"}, destination=tmp_path)
    assert not list(tmp_path.iterdir())
