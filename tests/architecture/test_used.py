"""What the package defines is used: by more than one page, or by the package itself."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat

import headbook
from headbook import paths, plots

PACKAGE = paths.REPOSITORY / "src" / "headbook"
PUBLIC = {*headbook.__all__, *plots.__all__}
CALLED_BY_NAME = {"headbook/cli.py"}
"""Commands: typer calls them."""

Words = Counter[str]


def code_of_pages() -> dict[str, Words]:
    found = {}
    for path in paths.NOTEBOOKS.glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        found[path.stem] = words("\n".join(c.source for c in cells if c.cell_type == "code"))
    return found


def words(text: str) -> Words:
    return Counter(re.findall(r"\w+", text))


def defined(path: Path) -> Iterator[str]:
    """Functions and classes of a module that others could use."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def alone(modules: dict[str, Path], pages: dict[str, Words]) -> list[tuple[str, str]]:
    """Names that one page alone uses, or nobody, as (module, name)."""
    texts = {name: words(path.read_text("utf-8")) for name, path in modules.items()}
    found = []
    for module, path in modules.items():
        if module in CALLED_BY_NAME or module.startswith("headbook/experiments/"):
            continue
        for name in defined(path):
            elsewhere = texts[module][name] > 1 or any(
                texts[other][name] for other in texts if other != module
            )
            using = [page for page, text in pages.items() if text[name]]
            if name not in PUBLIC and not elsewhere and len(using) < 2:
                found.append((module, name))
    return found


def modules(folder: Path) -> dict[str, Path]:
    return {str(path.relative_to(folder.parent)): path for path in sorted(folder.rglob("*.py"))}


def test_no_function_of_the_package_is_for_one_page_alone() -> None:
    assert alone(modules(PACKAGE), code_of_pages()) == []
