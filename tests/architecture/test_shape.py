"""The package stays readable: short functions, no hidden inputs, no pickle."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from headbook import paths

PACKAGE = paths.REPOSITORY / "src" / "headbook"
SOURCES = sorted([*PACKAGE.rglob("*.py"), *(paths.BOOK / "_ext").glob("*.py")])
LONGEST_FUNCTION = 60
MEDIAN_FUNCTION = 12
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of a module; each source is parsed once for all tests."""
    return tuple(ast.walk(ast.parse(source)))


def lengths(source: str) -> Iterator[tuple[str, int]]:
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


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


def _id(path: Path) -> str:
    return str(path.relative_to(paths.REPOSITORY))


def test_functions_are_short() -> None:
    found = [(_id(path), *each) for path in SOURCES for each in lengths(path.read_text("utf-8"))]
    assert not [each for each in found if each[-1] > LONGEST_FUNCTION]
    assert median(length for *_, length in found) <= MEDIAN_FUNCTION


@pytest.mark.parametrize("fault", [pickles, evaluates, reads_environment])
def test_no_pickle_no_eval_and_the_environment_only_in_paths(fault: Callable) -> None:
    found = {path for path in SOURCES if fault(path.read_text("utf-8"))}
    assert not found - ({PACKAGE / "paths.py"} if fault is reads_environment else set())


def test_nothing_is_called_utils() -> None:
    assert not [path for path in SOURCES if path.stem in {"util", "utils", "helpers", "misc"}]


@pytest.mark.parametrize("source", ["import os\nos.environ['A']", "from os import getenv"])
def test_a_planted_environment_read_is_seen(source: str) -> None:
    assert reads_environment(source)


@pytest.mark.parametrize(
    "source", ["import pickle", "from joblib import dump", "torch.load(p)", "f.to_pickle(p)"]
)
def test_a_planted_pickle_is_seen(source: str) -> None:
    assert pickles(source)


def test_a_planted_eval_is_seen_and_a_method_of_that_name_is_not() -> None:
    assert evaluates("eval('1')")
    assert not evaluates("model.eval()")


def test_length_counts_every_line_of_a_function() -> None:
    assert list(lengths("def f():\n    a = 1\n\n    return a\n")) == [("f", 4)]
