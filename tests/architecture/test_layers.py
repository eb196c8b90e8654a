"""Imports point downward only; what a floor must not know, it does not import."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headbook import paths

PACKAGE = paths.REPOSITORY / "src" / "headbook"
HOME = "headbook.chapters"
FLOORS = (
    ("machine", "paths", "types", "trees"),
    ("formats", "one_line", "tables"),
    ("cells", "old_results", "tolerances"),
    ("statistics",),
    ("corpora",),
    ("models",),
    ("heads", "layers", "syntax"),
    ("released",),
    ("training", "pruning"),
    ("runs", "plots"),
    ("results", "bench"),
    ("artefacts",),
    ("claims",),
    ("looking",),
    ("experiments",),
    ("chapters",),
    ("planning", "workflow"),
    ("book",),
    ("publishing",),
    ("cli_corpora",),
    ("cli",),
    ("__main__",),
)
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
DRAWING = {"pandas", "matplotlib", "seaborn", "papermill", "typer"}
MUST_NOT_KNOW = {
    "models": {"headbook.corpora", *DRAWING},
    "heads": {"headbook.training", "json", "pathlib", *DRAWING},
    "layers": {"headbook.training", "json", "pathlib", *DRAWING},
    "syntax": {"headbook.models", *DRAWING},
    "training": set(DRAWING),
    "claims": {"headbook.models", "headbook.heads", "headbook.training", "headbook.syntax"},
    "runs": {"headbook.models", "headbook.heads", "headbook.training", "headbook.corpora"},
}
# the one thing of the corpora that everybody may know: the shape of a batch
SHARED = "headbook.corpora.batches"


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
    """What the imports of `module` (headbook.floor.name) break, one line each."""
    own = module.split(".")[1]
    return [
        f"{module} imports {name}"
        for name in imported(source, module)
        if _upward(own, name) or _forbidden(own, name)
    ]


def _upward(own: str, name: str) -> bool:
    parts = name.split(".")
    if parts[0] != "headbook" or len(parts) < 2 or parts[1] == own:
        return False
    return parts[1] not in FLOOR or FLOOR[parts[1]] >= FLOOR[own]


def _forbidden(own: str, name: str) -> bool:
    if f"{name}.".startswith(f"{SHARED}."):
        return False
    return any(f"{name}.".startswith(f"{bad}.") for bad in MUST_NOT_KNOW.get(own, ()))


def modules() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if path != PACKAGE / "__init__.py"]


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts)


def test_every_module_stands_on_a_floor_and_imports_point_downward() -> None:
    assert not [path for path in modules() if _name(path).split(".")[1] not in FLOOR]
    found = [complaints(path.read_text("utf-8"), _name(path)) for path in modules()]
    assert len(found) > 100 and not [line for lines in found for line in lines]


def across(source: str, module: str) -> list[str]:
    """The imports of a part's module from another part, or from another page."""
    part = module.rpartition(".")[0]
    inside = [name.split(".") for name in imported(source, module) if name.startswith(f"{HOME}.")]
    parts = {path.name for path in (PACKAGE / "chapters").iterdir() if path.is_dir()}
    return [
        ".".join(name)
        for name in inside
        if name[2] in parts and (".".join(name[:3]) != part or not name[3].startswith("_"))
    ]


def test_pages_share_only_private_modules_of_their_part() -> None:
    modules_of_parts = sorted((PACKAGE / "chapters").glob("*/*.py"))
    assert len(modules_of_parts) > 30
    assert not [
        (path.name, *found)
        for path in modules_of_parts
        if (found := across(path.read_text("utf-8"), _name(path)))
    ]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from headbook.chapters.sixteen._curves import score", 1),
        ("from headbook.chapters.seeing.alike_heads import compute", 1),
        ("from headbook.chapters.seeing import alike_heads", 1),
        ("from headbook.chapters.seeing import _merging\nfrom headbook.chapters import words", 0),
    ],
)
def test_an_import_across_pages_or_parts_is_seen(source: str, count: int) -> None:
    assert len(across(source, f"{HOME}.seeing.read_off_attention")) == count


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("headbook.models.attention", "from headbook.heads import roles"),
        ("headbook.models.attention", "import headbook.training.loop"),
        ("headbook.models.attention", "from headbook.corpora.readers import load"),
        ("headbook.models.attention", "def f():\n    from headbook import cli"),
        ("headbook.heads.measure", "from headbook.syntax import alignment"),
        ("headbook.heads.measure", "import pandas as pd"),
        ("headbook.claims.verdict", "from headbook.models import transformer"),
        ("headbook.runs.store", "from ..claims import ledger"),
        ("headbook.artefacts.train", "from headbook.nowhere import x"),
    ],
)
def test_a_planted_import_is_seen(module: str, source: str) -> None:
    assert len(complaints(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("headbook.models.attention", "from headbook.corpora.batches import Batch"),
        ("headbook.models.attention", "from .capture import Point"),
        ("headbook.chapters.seeing._merging", "from headbook import paths\nimport pandas"),
    ],
)
def test_a_downward_import_is_allowed(module: str, source: str) -> None:
    assert not complaints(source, module)
