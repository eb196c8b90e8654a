"""Templates are found by name or number; their parameters are plain literals."""

import re
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook

from headbook import paths
from headbook.publishing import templates
from headbook.types import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("13_syntactic_heads", "01_anatomy"):
        cell = new_code_cell('profile = "a"', metadata={"tags": ["parameters"]})
        nbformat.write(new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    return tmp_path


def test_literals_are_read_and_anything_else_is_refused() -> None:
    source = "a = 1\nb = 'x'\nc = (1, -2)\nd = None"
    assert templates.literals(source) == {"a": 1, "b": "x", "c": (1, -2), "d": None}
    for other in ("a = f()", "a = b = 1", "import os", "a: int = 1", "a = 1 + x"):
        with pytest.raises(ValueError):
            templates.literals(other)


def test_templates_stand_in_reading_order(folder: Path) -> None:
    found = templates.templates(folder)
    assert [each.name for each in found] == ["01_anatomy", "13_syntactic_heads"]
    assert found[0].parameters == {"profile": "a"}


@pytest.mark.parametrize(
    "name", ["13", "13_syntactic_heads", "syntactic_heads", "notebooks/13_syntactic_heads.ipynb"]
)
def test_a_notebook_is_called_by_number_name_study_or_path(name: str, folder: Path) -> None:
    assert [each.name for each in templates.select([name], folder)] == ["13_syntactic_heads"]


def test_an_empty_folder_and_a_broken_notebook_are_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no notebooks in"):
        templates.templates(tmp_path)
    (tmp_path / "10_broken.ipynb").write_text("{")
    with pytest.raises(UserError, match=r"10_broken\.ipynb is not a readable notebook"):
        templates.templates(tmp_path)


@pytest.mark.parametrize("purpose", ["smoke", "publish"])
def test_a_page_has_its_parameters_once_and_reads_them(purpose: str) -> None:
    text = Path(paths.NOTEBOOKS, "parameters", f"{purpose}.yml").read_text("utf-8")
    pages = re.findall(r"^(\d+):", text, re.M)
    assert pages and len(pages) == len({*pages}), "YAML would take the later of two"
    known = {each.name[:2]: each for each in templates.templates()}
    for page, given in yaml.safe_load(text).items():
        templates.check(known[f"{page:02}"], given)
