"""What a notebook may hold, read from its text alone: every one, and a page that measures itself.

Lines of code are those that are not blank. Prose is Markdown without headings, tables, displayed
formulas, directives' own lines, folded parts (`dropdown`), and the sections Limits and Try it.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from headbook import paths
from headbook.publishing.templates import literals

MOST_LINES, MOST_OF_A_CELL, MOST_HIDDEN, MOST_OF_SUMMARY = 130, 15, 15, 40
MOST_WORDS, MOST_WORDS_OF_ANSWER, MOST_NUMBERS = 500, 60, 3
HIDING = {"remove-cell", "remove-input", "hide-cell", "hide-input"}
MEASURED = "How it is measured"
ASIDE = ("## Limits", "## Try it")
ABSOLUTE = re.compile(r"^(/|~|[A-Za-z]:[\\/])")

FENCE = re.compile(
    r"^(?P<fence>`{3,}|:{3,})(?P<head>[^\n]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S
)
ANSWER = re.compile(r"\{admonition\}\s*Answer\s*$")
NUMBER = re.compile(r"\{n\}`[^`]*`")
NO_PROSE = re.compile(r"\{[\w:]+\}`[^`]*`|`[^`]*`|\$[^$\n]*\$|<[^>\s][^>]*>|(?<=\])\([^)]*\)")
NAMED = re.compile(
    r"\b(?:figures?|tables?|sections?|equations?|appendix|pages?|parts?|layers?|heads?|seeds?)"
    r"\s+\d+(?:\.\d+)*(?:(?:, | and | to | or |–)\d+(?:\.\d+)*)*",
    re.IGNORECASE,
)
NAME = re.compile(r"(?<![\w.-])[A-Za-z][\w.@-]*\d[\w@-]*(?:\.[A-Za-z]\w*)?")
"""A word that begins with a letter: L6H5, MiniLM-L6, mixture-fr-256, page13.py."""
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
DIGITS = re.compile(r"[+−-]?\d[\d.,]*")


def of_every(notebook: NotebookNode) -> Iterator[str]:
    """What a template breaks of the contract of all notebooks, one line each."""
    for number, cell in enumerate(notebook.cells, 1):
        if cell.get("outputs") or cell.get("execution_count") is not None:
            yield f"cell {number} was executed"
    tagged = [cell for cell in notebook.cells if "parameters" in _tags(cell)]
    if len(tagged) != 1:
        yield f"{len(tagged)} parameters cells"
    for cell in tagged:
        try:
            literals(cell.source)
        except (ValueError, SyntaxError) as error:
            yield f"parameters are not plain literals: {error}"
    for cell in _code(notebook):
        try:
            nodes = list(ast.walk(ast.parse(cell.source)))
        except SyntaxError as error:  # a magic or a shell line among others
            yield f"not plain Python: {error.text}"
        else:
            constants = (str(node.value) for node in nodes if isinstance(node, ast.Constant))
            yield from (f"absolute path {each}" for each in constants if ABSOLUTE.match(each))


def of_page(notebook: NotebookNode) -> Iterator[str]:
    """What a page that measures itself breaks beyond that, one line each.

    A phenomenon is drawn before it is measured, and something is asserted for all to see.
    """
    code, text = _code(notebook), _markdown(notebook.cells)
    visible = [cell for cell in code if not HIDING & _tags(cell)]
    summary = [cell for cell in code if "summary" in _tags(cell)]
    hidden = [cell for cell in code if cell not in visible + summary]
    answers = [found["body"] for found in FENCE.finditer(text) if ANSWER.search(found["head"])]
    counts = {
        "visible lines of code": (sum(map(_length, visible)), MOST_LINES),
        "lines in a visible cell": (max(map(_length, visible)), MOST_OF_A_CELL),
        "hidden lines": (sum(map(_length, hidden)), MOST_HIDDEN),
        "lines of summary": (sum(map(_length, summary)), MOST_OF_SUMMARY),
        "words of prose": (words(text), MOST_WORDS),
        "words in the answer": (words("".join(answers)), MOST_WORDS_OF_ANSWER),
        "numbers in the answer": (len(NUMBER.findall("".join(answers))), MOST_NUMBERS),
    }
    yield from (f"{count} {what}, more than {most}" for what, (count, most) in counts.items()
                if count > most)  # fmt: skip
    measured = [f"## {MEASURED}" in _markdown([cell]) for cell in notebook.cells] + [True]
    before = [cell for cell in notebook.cells[: measured.index(True)] if cell in visible]
    imports = ast.Import | ast.ImportFrom
    faults = {
        "one box is called Answer": len(answers) != 1,
        f"no section {MEASURED!r}": measured.index(True) == len(notebook.cells),
        "no phenomenon is drawn before it is measured": not any(map(_draws, _nodes(before))),
        "no visible assert": not any(isinstance(node, ast.Assert) for node in _nodes(visible)),
        "the parameters are hidden": any("parameters" in _tags(cell) for cell in hidden),
        "the summary is not folded": any("hide-input" not in _tags(cell) for cell in summary),
        "a hidden cell does more than import": not all(
            isinstance(node, imports) for cell in hidden for node in _parsed(cell).body
        ),
    }
    yield from (fault for fault, there in faults.items() if there)
    yield from (f"{each!r} stands in prose without a reference" for each in digits(text))


def style(*notebooks: Path) -> list[str]:
    """What ruff says of the notebooks' cells, at the width of the book's column."""
    ruff = [sys.executable, "-m", "ruff"]
    given = ["--config", str(paths.NOTEBOOKS / "ruff.toml"), "--no-cache", "--quiet", *notebooks]
    runs = (["check", "--output-format", "concise"], ["format", "--check"])
    said = [subprocess.run([*ruff, *run, *given], capture_output=True, text=True) for run in runs]
    names = ("check", "format")
    return [f"ruff {name}: {done.stdout or done.stderr}"
            for name, done in zip(names, said, strict=True) if done.returncode]  # fmt: skip


def _draws(node: ast.AST) -> bool:
    """A call of `view`, or of something whose name speaks of plots."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name.rpartition(".")[2] == "view" or "plot" in name


def words(markdown: str) -> int:
    """Words of prose; a role, a formula and a piece of code are one word each.

    Code, displayed formulas, folded parts, limits and exercises are not counted.
    """
    text = re.sub(r"\$\$.*?\$\$", "", FENCE.sub(_unfolded, markdown), flags=re.DOTALL)
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    prose = "".join(each for each in sections if not each.startswith(ASIDE))
    lines = [line for line in NO_PROSE.sub("x", prose).splitlines() if line[:1] not in tuple("#:|")]
    return sum(len(line.split()) for line in lines)


def digits(markdown: str) -> list[str]:
    """Numbers in prose that are no reference, formula, code, link, year or name.

    Names are words that begin with a letter (L6H5, MiniLM-L6), and what follows words such as
    Figure, Table, section, page, layer, head or seed. Tables and folded parts count, too.
    """
    text = re.sub(r"\$\$.*?\$\$", "", FENCE.sub(_kept, markdown), flags=re.DOTALL)
    text = re.sub(r"^(?:#+ \d\d (?=\D)| *\d+\. |:[\w-]+:.*)", "", text, flags=re.MULTILINE)
    for left_out in (NO_PROSE, NAMED, NAME, YEAR):
        text = left_out.sub(" ", text)
    return DIGITS.findall(text)


def _kept(fence: re.Match[str]) -> str:
    """The body of a directive; of code nothing."""
    return FENCE.sub(_kept, fence["body"]) if fence["head"].strip().startswith("{") else ""


def _unfolded(fence: re.Match[str]) -> str:
    """The body of a directive that is not folded; of code nothing."""
    folded = "dropdown" in fence["head"] or ":class: dropdown" in fence["body"]
    shown = fence["head"].strip().startswith("{") and not folded
    return FENCE.sub(_unfolded, fence["body"]) if shown else ""


def _markdown(cells: list[NotebookNode]) -> str:
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _parsed(cell: NotebookNode) -> ast.Module:
    try:
        return ast.parse(cell.source)
    except SyntaxError:  # which is a complaint of its own
        return ast.Module([], [])


def _nodes(cells: list[NotebookNode]) -> Iterator[ast.AST]:
    return (node for cell in cells for node in ast.walk(_parsed(cell)))


def _length(cell: NotebookNode) -> int:
    return sum(bool(line.strip()) for line in cell.source.splitlines())


def _tags(cell: NotebookNode) -> set[str]:
    return set(cell.metadata.get("tags", []))
