"""A page in its notebook: published tables, live measurements, facts, guards."""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import old_results
from headbook.chapters.chapter import Chapter, Facts, Tables, find, given_in, plain
from headbook.chapters.claims import judged
from headbook.chapters.comparing import Comparison, beside_published, compare
from headbook.chapters.results import (
    Published,
    add,
    extend,
    largest_published,
    machine,
    published,
    write,
)
from headbook.chapters.tables import stacked
from headbook.claims.gates import RELEASED
from headbook.claims.verdict import COLUMNS, Verdict
from headbook.looking.load import of_the_book
from headbook.runs.store import Store
from headbook.types import COMPARED, UserError


@dataclass(frozen=True)
class Page:
    """One page, opened: everything that its cells show.

    `live` is what this run measured, `published` the published tables, and `tables` these and the
    rows of measurements that only this run has. Facts and guards read the published ones: the prose
    was written for those.
    """

    chapter: Chapter
    parameters: Any
    live: Tables
    published: Tables
    tables: Tables
    facts: Facts
    comparison: Comparison
    seconds: float
    released: Published | None
    trained: Published | None

    def expects(self, sentence: str, holds: object) -> None:
        """Guards a sentence of the page; UserError where the published results say otherwise."""
        if not holds:
            raise UserError(
                f"page {self.chapter.number} says that {sentence}, and its published tables say "
                "otherwise: rewrite the sentence and its guard"
            )

    def table(self, frame: pd.DataFrame, download: str = "") -> "Table":
        """A small table; `download` names the table of the page that a reader can save as CSV."""
        return Table(frame, download, self.tables[download] if download else None)

    def claims(self) -> "Table":
        """One row per claim of this page, with its verdict over all published models; below, what
        each claim means.
        """
        found = judged(self.chapter.name, _claims(self.published))
        return Table(found.table, below=found.definitions)

    def glue(self, name: str, shown: object) -> None:
        """Stores an object for `{glue}` in a tab or below a fold, where no code can stand.

        UserError for a name that a fact of the page has.
        """
        if name in self.facts:
            raise UserError(f"page.glue({name!r}) takes the name of a fact: use another")
        from myst_nb import glue

        glue(name, shown, display=False)

    def reproduce(self) -> "Lines":
        """Commands, commits, dates and machines behind the numbers."""
        name, number = self.chapter.name, self.chapter.number
        lines = [
            f"This page: <code>headbook run {number}</code> executes its notebook, "
            f"<code>notebooks/{name}.ipynb</code>, with the parameters "
            f"<code>{escape(json.dumps(plain(self.parameters), ensure_ascii=False))}</code>."
        ]
        if self.live and self.released:
            lines[0] += f" Measured again here: {escape(str(self.comparison))}."
        for kept in filter(None, (self.released, self.trained)):
            made = kept.run
            hours = f"{made.get('seconds', 0) / 3600:.2f}"
            took = "" if hours == "0.00" else f", {hours} hours"  # all of it came from the store
            lines.append(
                f"Published tables <code>data/results/{name[:2]}</code>: "
                f"<code>headbook publish {number} --profile {kept.profile}</code>, commit "
                f"{made['commit']}, {made['date'][:10]}, {machine(made['hardware'])}{took}."
            )
            usual = made.get("parameters", {})
            lines += [_added(number, own, usual) for own in made.get("added", ())]
        return Lines(tuple(lines))


@dataclass(frozen=True)
class Lines:
    """Lines of HTML as a list."""

    lines: tuple[str, ...]

    def _repr_html_(self) -> str:
        return "<ul>" + "".join(f"<li>{line}</li>" for line in self.lines) + "</ul>"


@dataclass(frozen=True)
class Table:
    """A table as HTML, and where it was cut from a published one, that one to download.

    `below` is HTML that stands under it.
    """

    frame: pd.DataFrame
    name: str = ""
    whole: pd.DataFrame | None = None
    below: str = ""

    def _repr_html_(self) -> str:
        body = self.frame.to_html(index=False, border=0, na_rep="", escape=True,
                                  classes="table headbook-table")  # fmt: skip
        scroll = f'<div class="headbook-scroll" tabindex="0">{body}</div>'
        if self.whole is None:
            return scroll + self.below
        data = base64.b64encode(self.whole.to_csv(index=False).encode()).decode()
        link = f'<a download="{self.name}.csv" href="data:text/csv;base64,{data}">'
        return f"{scroll}<p>{link}{self.name}.csv</a>, {len(self.whole):,} rows</p>{self.below}"


def open_page(
    number: int,
    namespace: Mapping[str, Any],
    store: Store | None = None,
    root: Path | None = None,
    home: str | None = None,
) -> Page:
    """Opens a page in its notebook, whose names are `namespace`, and glues its facts.

    Papermill injects any parameter it is given, so a name that the page does not read is a
    UserError here. The models and texts that the parameters name are measured now
    and compared with the published tables.
    """
    chapter = find(number, home) if home else find(number)
    if chapter is None:
        raise UserError(f"no chapter is number {number}: see src/headbook/chapters")
    parameters = chapter.parameters_from(given_in(namespace))
    began = time.monotonic()
    live = chapter.compute(parameters, store or Store.default())
    seconds = time.monotonic() - began
    released, trained = _published(chapter.name, root)
    known = released.tables if released else {} if trained else live
    comparison = Comparison(0)
    if released:
        comparison = compare(live, known, chapter.keys, f"{chapter.number:02d}")
    tables = _joined(known, trained.tables if trained else {})
    facts = chapter.facts(tables)
    facts |= {"verdicts": _counted(judged(chapter.name, _claims(tables)).counted)}
    of_released = live.keys() & known.keys() - (trained.tables.keys() if trained else set())
    beside = {n: beside_published(live[n], known[n], chapter.keys) for n in of_released}
    with_new = {**tables, **beside}
    page = Page(
        chapter, parameters, live, tables, with_new, facts, comparison, seconds, released, trained
    )
    _glue(page)
    return page


def published_tables(name: str, root: Path | None = None) -> Tables:
    """A page's published tables, of released models and of those trained here."""
    released, trained = _published(name, root)
    return _joined(released.tables if released else {}, trained.tables if trained else {})


def publish_chapter(chapter: Chapter, given: Mapping[str, Any], root: Path | None = None) -> Path:
    """Computes a chapter with these parameters and writes its tables; returns their folder."""
    return write(chapter.name, RELEASED, *_computed(chapter, given), root)


def add_model(
    chapter: Chapter, given: Mapping[str, Any], model: str, root: Path | None = None
) -> Path:
    """Adds one model to a chapter's published tables, measured with these parameters.

    The record says which weights were measured, where they are those that come with the book.
    UserError for a page that has no parameter `models`, or no published tables.
    """
    if "models" not in {field.name for field in fields(chapter.parameters)}:
        raise UserError(f"page {chapter.number} measures no models by name: leave --model out")
    published(chapter.name, RELEASED, root)  # Said before it is measured, not after.
    tables, described = _computed(chapter, {**given, "models": [model]})
    if weights := of_the_book(model):
        described["weights"] = weights
    return add(chapter.name, RELEASED, tables, model, described, root)


def add_measured(chapter: Chapter, given: Mapping[str, Any], root: Path | None = None) -> Path:
    """Adds to a chapter's published tables what these parameters alone measure.

    UserError for a page without published tables, and for no or a wrong parameter.
    """
    if not given:
        raise UserError("name a parameter that says what is added, as in --given lists=3")
    published(chapter.name, RELEASED, root)  # Said before it is measured, not after.
    tables, described = _computed(chapter, given)
    return extend(chapter.name, RELEASED, tables, chapter.keys, given, described, root)


def _added(number: int, own: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """Additions to published tables, with the command of each; and rows that stayed in them.

    `usual` are the parameters of the tables that they were added to.
    """
    made = f"commit {own['commit']}, {own['date'][:10]}, {machine(own['hardware'])}."
    if "claims" in own:
        return f"Rows of superseded claims, from before: {made}"
    if "model" in own:
        subject = escape(own["model"])
        option = f"--profile {own['profile']}" if "profile" in own else f"--model {subject}"
        its = own.get("parameters", {}).items()
        option += _options({name: value for name, value in its
                            if name != "models" and value != usual.get(name, value)})  # fmt: skip
        if weights := own.get("weights"):
            subject += f", weights after {weights['updates']:,} of {weights['planned']:,} updates"
    else:
        subject = escape(", ".join(_named(own["given"])))
        option = _options(own["given"]).lstrip()
    return f"Rows of {subject}: <code>headbook publish {number} {option}</code>, {made}"


def _named(values: Mapping[str, Any]) -> list[str]:
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]


def _options(values: Mapping[str, Any]) -> str:
    return "".join(f" --given '{escape(each)}'" for each in _named(values))


def _computed(chapter: Chapter, given: Mapping[str, Any]) -> tuple[Tables, dict[str, Any]]:
    """A chapter's tables with these parameters, and what is recorded of them."""
    parameters, store = chapter.parameters_from(given), Store.default()
    began = time.monotonic()
    tables = chapter.compute(parameters, store)
    seconds = round(time.monotonic() - began, 1)
    return tables, {"parameters": plain(parameters), "seconds": seconds, "runs": store.records()}


def _published(name: str, root: Path | None) -> tuple[Published | None, Published | None]:
    """Tables published for released models, and for models trained here at the largest profile."""
    there = old_results.made(name, RELEASED, root) is not None
    return published(name, RELEASED, root) if there else None, largest_published(name, root)


def _joined(released: Tables, trained: Tables) -> Tables:
    """Both under their names; tables of one name, the claims, are stacked."""
    return {**trained, **released} | {
        name: stacked([released[name], trained[name]]) for name in released.keys() & trained.keys()
    }


def _claims(tables: Tables) -> pd.DataFrame:
    return tables.get("claims", pd.DataFrame(columns=COLUMNS))


def _counted(verdicts: Mapping[Verdict, int]) -> str:
    """`4 replicated, 5 mixed`, in the order of the verdicts."""
    return ", ".join(f"{verdicts[each]} {each}" for each in Verdict if each in verdicts)


def _glue(page: Page) -> None:
    """Facts for `{glue:text}`, and the comparison for the runner; nothing is shown."""
    # Imported here: chapters are computed on machines that have no notebooks.
    from IPython.display import display
    from myst_nb import glue

    facts = {**page.facts, "measured_again": str(page.comparison)}
    for name, value in facts.items():
        glue(name, value, display=False)
    found = page.comparison
    compared = {"cells": found.cells, "rows": found.rows, "differing": list(found.differing)}
    display({COMPARED: compared, "text/plain": str(page.comparison)}, raw=True)
