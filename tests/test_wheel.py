"""The installed package in a folder without the repository, with the core dependencies alone."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headbook import paths

pytestmark = pytest.mark.slow

EXTRAS = {"lightning_fabric", "sacrebleu", "sklearn", "spacy", "papermill", "nbformat"}
EXTRAS |= {"networkx", "captum", "tensorly", "eflomal", "latex2mathml"}
FIVE_LINES = re.compile(r"```python\n(import headbook as hb\n.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked; nothing of the repository beside it."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(paths.REPOSITORY / name, source)
    shutil.copytree(paths.REPOSITORY / "src" / "headbook", source / "src" / "headbook")
    shutil.copytree(paths.DATA / "sample", source / "data" / "sample")
    for name in ("corpora.toml", "models.toml"):
        shutil.copy(paths.DATA / name, source / "data")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(source)], check=True)
    absent = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
    (target / "sitecustomize.py").write_text(absent)
    return target


THEN = """
from headbook.types import UserError
try:
    hb.load("mixture-fr-256")
except UserError as error:
    print(error)
sys.argv[1:] = ["look", "minilm", "--first", "2", "--no-importance", "--nulls", "0"]
runpy.run_module("headbook", run_name="__main__")
"""


def test_the_five_lines_and_look_run_in_another_folder(installed: Path, tmp_path: Path) -> None:
    """The README's first ones, on little; a model of the repository says where it is."""
    code, *_ = FIVE_LINES.findall((paths.REPOSITORY / "README.md").read_text("utf-8"))
    code = code.replace('hb.text("ewt-sample")', 'hb.text("ewt-sample", first=2), nulls=1')
    environment = {"PYTHONPATH": str(installed), "HOME": str(tmp_path), "MPLBACKEND": "agg",
                   "OMP_NUM_THREADS": "1"}  # fmt: skip
    command = [sys.executable, "-c", f"import runpy, sys\n{code}\nprint(hb.__file__){THEN}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    where, refused, *_ = done.stdout.splitlines()
    assert where.startswith(str(installed))
    assert "clone" in refused
    assert list(tmp_path.rglob("*.html"))


def test_the_wheel_names_every_package() -> None:
    """Packages are listed, because the catalogue lies beside `src`."""
    setup = tomllib.loads((paths.REPOSITORY / "pyproject.toml").read_text("utf-8"))["tool"]
    package = paths.REPOSITORY / "src" / "headbook"
    found = [path.parent.relative_to(package.parent) for path in package.rglob("__init__.py")]
    named = {*(".".join(path.parts) for path in found), "headbook.data"}
    assert {*setup["setuptools"]["packages"]} == named
