"""Imports point downward only; what a floor must not know, it does not import."""

import ast
from collections.abc import Iterator

import pytest

from headbook import paths

PACKAGE = paths.REPOSITORY / "src" / "headbook"
FLOORS = (
    ("machine", "paths", "types"),
    ("extras",),
    ("formats", "one_line", "tables", "timing", "runs"),
    ("cells", "tolerances", "statistics", "text"),
    ("models", "recipes"),
    ("heads", "layers"),
    ("released", "pruning"),
    ("plots", "results"),
    ("looking",),
    # above this line is the core, which a reader's own program imports; below, what makes the book
    ("corpora",),
    ("training",),
    ("claims", "bench"),
    ("bench_steps",),
    ("experiments",),
    ("workflow",),
    ("book",),
    ("publishing",),
    ("cli",),
    ("__main__",),
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
DRAWING = {"pandas", "matplotlib", "seaborn", "papermill", "typer"}
MUST_NOT_KNOW = {
    "models": DRAWING,
    "heads": {"json", "pathlib", *DRAWING},
    "layers": {"json", "pathlib", *DRAWING},
    "text": {"headbook.runs", *DRAWING},
    "training": DRAWING - {"pandas"},
    "claims": {"headbook.models", "headbook.heads", "headbook.training"},
    "runs": {"headbook.text"},
}
BY_NAME = {("headbook.looking.load", "headbook.training")}
"""`hb.load` of a model that is trained here: imported when one is asked for."""


def imported(source: str, module: str) -> Iterator[str]:
    """Every module a source imports, anywhere in it, by its full name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def complaints(source: str, module: str) -> list[str]:
    """What the imports of `module` (headbook.floor.name) break."""
    own, found = module.split(".")[1], []
    for name in imported(source, module):
        package, floor, *_ = [*name.split("."), ""]
        upward = package == "headbook" and floor not in ("", own) and (
            floor not in FLOOR or FLOOR[floor] >= FLOOR[own])  # fmt: skip
        forbidden = any(f"{name}.".startswith(f"{bad}.") for bad in MUST_NOT_KNOW.get(own, ()))
        if (upward or forbidden) and (module, f"{package}.{floor}") not in BY_NAME:
            found.append(name)
    return found


def test_every_module_stands_on_a_floor_and_imports_point_downward() -> None:
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path
        for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py"
    }  # fmt: skip
    assert not [name for name in modules if name.split(".")[1] not in FLOOR]
    found = {name: complaints(path.read_text("utf-8"), name) for name, path in modules.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("headbook.models.attention", "def f():\n    from headbook import cli"),
        ("headbook.heads.measure", "import pandas as pd"),
        ("headbook.runs.store", "from ..claims import ledger"),
    ],
)
def test_a_planted_import_is_seen(module: str, source: str) -> None:
    assert complaints(source, module)
    assert not complaints("from headbook.text.batches import Batch", "headbook.models.attention")
