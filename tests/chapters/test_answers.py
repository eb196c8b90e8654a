"""The answer on each page's first screen: its numbers are facts, and it says how sure they are."""

import re
from functools import cache

import nbformat
import pytest

from headbook import paths
from headbook.chapters.chapter import Chapter, Facts, find, module_of
from headbook.chapters.page import published_tables

PAGES = [path for path in sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb")) if module_of(path.stem)]
"""Those that have not moved: others name the cells of their numbers."""
ANSWER = re.compile(r":::\{admonition\} Answer\n:class: answer\n(.*?)\n:::", re.S)
FACT = re.compile(r"\{glue:text\}`(\w+)`")
SURE = re.compile(r"\[[+−]?[\d.]+, [+−]?[\d.]+\]|\d to [+−]?\d|p = 0|\d of \d")
"""An interval, a range over seeds or trainings, a p-value, or a count of all."""
WITHOUT = {
    31: "shares of all cells, and the largest change of a logit",
    44: "exact",
}
"""Pages whose answers need none, and why."""
OF_EVERY_PAGE = {"verdicts", "measured_again"}


@cache
def opened(name: str) -> tuple[Chapter, str, Facts]:
    """A page's chapter, its answer and its facts, `verdicts` left out."""
    chapter = find(name)
    cells = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    answer = ANSWER.search(text).group(1).partition("\n\n")[0]
    return chapter, answer, chapter.facts(published_tables(chapter.name))


@pytest.mark.parametrize("name", [path.stem for path in PAGES])
def test_an_answer_says_how_sure_it_is(name: str) -> None:
    chapter, answer, facts = opened(name)
    shown = FACT.sub(lambda found: facts[found.group(1)], answer)
    assert SURE.search(shown) or chapter.number in WITHOUT, shown


@pytest.mark.parametrize("name", [path.stem for path in PAGES])
def test_every_number_in_the_text_and_the_captions_is_glued(name: str) -> None:
    """The book's build finds one that is not, minutes later."""
    cells = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4).cells
    text = "\n".join(f"{cell.source} {cell.metadata}" for cell in cells)
    glued = set(re.findall(r"page\.glue\(\s*\"(\w+)\"", text))
    _, _, facts = opened(name)
    known = facts.keys() | glued | OF_EVERY_PAGE
    assert set(FACT.findall(text)) <= known


@pytest.mark.parametrize(
    "shown", ["64 % [62, 66]", "−0.5 [−0.6, +0.1]", "53 to 63 %", "p = 0.008", "4 of 48"]
)
def test_ways_to_say_how_sure_are_known(shown: str) -> None:
    assert SURE.search(shown) and not SURE.search("64 %, from update 512 on {cite}`a2020`")
