"""What the package defines is used: by more than one page, or by the package itself."""

import ast
import re
from collections import Counter

import nbformat

import headbook
from headbook import paths, plots

PACKAGE = paths.REPOSITORY / "src" / "headbook"
PUBLIC = {*headbook.__all__, *plots.__all__}


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


def test_no_function_of_the_package_is_for_one_page_alone() -> None:
    """But those of experiments, the public ones, and commands, which typer calls."""
    pages = [
        words("\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells
                        if cell.cell_type == "code"))
        for path in paths.NOTEBOOKS.glob("*.ipynb")
    ]  # fmt: skip
    texts = {path: path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    package = sum(map(words, texts.values()), Counter())
    alone = [
        (path.name, node.name)
        for path, text in texts.items()
        if path.name != "cli.py" and path.parent.name != "experiments"
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not (node.name.startswith("_") or node.name in PUBLIC)
        and package[node.name] == 1
        and sum(node.name in page for page in pages) < 2
    ]
    assert alone == []
