"""Templates are found by name or number; pages have their parameters."""

import re
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook
from refusing import refused

from headbook import paths
from headbook.publishing import templates


def test_a_notebook_is_called_by_number_name_study_or_path(tmp_path: Path) -> None:
    with refused("no notebooks in"):
        templates.templates(tmp_path)
    for name in ("13_syntactic_heads", "01_anatomy"):
        cell = new_code_cell('profile = "a"', metadata={"tags": ["parameters"]})
        nbformat.write(new_notebook(cells=[cell]), tmp_path / f"{name}.ipynb")
    first, second = templates.templates(tmp_path)
    assert (first.name, first.parameters) == ("01_anatomy", {"profile": "a"})
    name = second.name
    for called in ("13", name, name.partition("_")[2], f"notebooks/{name}.ipynb"):
        assert [each.name for each in templates.select([called], tmp_path)] == [name]
    (tmp_path / "10_broken.ipynb").write_text("{")
    with refused(r"10_broken\.ipynb is not a readable notebook"):
        templates.templates(tmp_path)


@pytest.mark.parametrize("purpose", ["smoke", "publish"])
def test_a_page_has_its_parameters_once_and_reads_them(purpose: str) -> None:
    text = Path(paths.NOTEBOOKS, "parameters", f"{purpose}.yml").read_text("utf-8")
    pages = re.findall(r"^(\d+):", text, re.M)
    assert pages and len(pages) == len({*pages}), "YAML would take the later of two"
    known = {each.name[:2]: each for each in templates.templates()}
    for page, given in yaml.safe_load(text).items():
        templates.check(known[f"{page:02}"], given)
