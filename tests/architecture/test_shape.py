"""No pickle, nothing evaluated, no hidden inputs."""

import ast
from collections.abc import Callable
from functools import cache

import pytest

from headbook import paths

PACKAGE = paths.REPOSITORY / "src" / "headbook"
SOURCES = sorted([*PACKAGE.rglob("*.py"), *(paths.BOOK / "_ext").glob("*.py")])
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of a module; each source is parsed once for all tests."""
    return tuple(ast.walk(ast.parse(source)))


def reads_environment(source: str) -> bool:
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "setdefaultenv"}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.ImportFrom) and names & {a.name for a in node.names})
        for node in nodes(source)
    )


def pickles(source: str) -> bool:
    """Whether pickle is imported, or hides in torch.save, torch.load or pandas' pickles."""
    for node in nodes(source):
        if isinstance(node, ast.Import) and PICKLES & {a.name.split(".")[0] for a in node.names}:
            return True
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLES:
            return True
        if isinstance(node, ast.Attribute) and node.attr in {"to_pickle", "read_pickle"}:
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"torch.save", "torch.load"}:
            return True
    return False


def evaluates(source: str) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"eval", "exec", "__import__"}
        for node in nodes(source)
    )


@pytest.mark.parametrize("fault", [pickles, evaluates, reads_environment])
def test_no_pickle_no_eval_and_the_environment_only_in_paths(fault: Callable) -> None:
    found = {path for path in SOURCES if fault(path.read_text("utf-8"))}
    assert not found - ({PACKAGE / "paths.py"} if fault is reads_environment else set())


@pytest.mark.parametrize(
    ("fault", "source", "clean"),
    [
        (pickles, "import pickle", "import json"),
        (pickles, "torch.load(p)", "hb.load(p)"),
        (evaluates, "eval('1')", "model.eval()"),
        (reads_environment, "import os\nos.environ['A']", "import os\nos.getpid()"),
    ],
)
def test_a_planted_fault_is_seen(fault: Callable, source: str, clean: str) -> None:
    assert fault(source) and not fault(clean)
