"""What the README and the book offer for copying runs as it stands."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import yaml
from forking import ends
from typer.main import get_command

from headbook import cli, paths
from headbook.publishing.templates import read

FENCED = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"(?:^(?: {4}.*)\n)+", re.M)
CALLED = re.compile(r" *(?:\w+=\S+ )*(?:\S*python3? -m )?(?P<program>headbook|papermill) ")


def texts() -> Iterator[tuple[str, str]]:
    """All prose that a reader copies from, by file."""
    for path in [paths.REPOSITORY / "README.md", *paths.BOOK.rglob("*.md")]:
        yield path.name, path.read_text("utf-8")
    for path in sorted(paths.NOTEBOOKS.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        yield path.name, "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def commands() -> Iterator[tuple[str, list[str]]]:
    for name, text in texts():
        blocks = [match["code"] for match in FENCED.finditer(text) if not match["language"]]
        for block in [*blocks, *INDENTED.findall(text)]:
            for line in block.replace("\\\n", " ").splitlines():
                if called := CALLED.match(line):
                    yield name, shlex.split(line[called.start("program") :], comments=True)


FIRST, *PYTHON = [(name, match["code"]) for name, text in texts() for match in FENCED.finditer(text)
                  if match["language"] == "python" and "# %%" not in match["code"]]  # fmt: skip
"""The first are the README's five lines, which test_wheel.py runs in another folder."""
CALLS = list(commands())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "code"), PYTHON)
def test_python_runs_when_copied(name: str, code: str, tmp_path: Path) -> None:
    assert ends(code, {}, tmp_path) == 0, name


@pytest.mark.parametrize(("name", "words"), [each for each in CALLS if each[1][0] == "papermill"])
def test_a_notebook_has_the_parameters_that_a_command_names(name: str, words: list[str]) -> None:
    notebook = paths.REPOSITORY / words[1]
    assert notebook.is_file(), f"{name}: {words}"
    known = read(notebook).parameters
    for option, given in pairwise(words):
        if option == "-p":
            assert given in known, f"{name}: {notebook.name} has no parameter {given}"
        elif option == "-y":
            assert yaml.safe_load(given).keys() <= known.keys(), f"{name}: {given}"


@pytest.mark.parametrize(("name", "words"), [each for each in CALLS if each[1][0] == "headbook"])
def test_a_command_of_headbook_takes_what_it_is_given(name: str, words: list[str]) -> None:
    """Parsed by the command line itself, and not carried out."""
    main = get_command(cli.app)
    until = next((i for i, word in enumerate(words) if word in (">", "|", "&&", ";")), len(words))
    call = words[1:until]
    command = main.commands[call[0]]
    command.make_context(call[0], call[1:], resilient_parsing=False)
