"""What a notebook shows: figures with alt text, tables, filled sentences, comparisons."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import pandas as pd
from matplotlib.figure import Figure

from headbook import paths
from headbook.claims.ledger import Ledger, load
from headbook.claims.published import Evidence
from headbook.claims.render import comparison
from headbook.claims.scorecard import checked
from headbook.claims.verdict import Result, result, seed_text
from headbook.studies.config import Config
from headbook.studies.results import Published, Tables, all_published

DOTS_PER_INCH = 144
PIXELS_PER_INCH = 84


def display(shown: object) -> None:
    """Puts it below the cell."""
    # Imported here: studies are computed on machines that have no notebooks.
    from IPython.display import display as put

    put(shown)


def markdown(text: str) -> object:
    """Text that is shown as Markdown."""
    from IPython.display import Markdown

    return Markdown(text)


@dataclass(frozen=True)
class Picture:
    """A figure as an image with alternative text, in a notebook and in the book alike."""

    figure: Figure
    alt: str

    def _repr_html_(self) -> str:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight",
                            facecolor="white", metadata={"Software": None})  # fmt: skip
        data = base64.b64encode(buffer.getvalue()).decode()
        width = round(self.figure.get_figwidth() * PIXELS_PER_INCH)
        # Never shrunk to a column, where its labels could not be read: a wide figure is scrolled.
        return (
            '<div class="figure-scroll" style="overflow-x: auto" tabindex="0">'
            f'<img class="figure" style="max-width: none; width: {width}px" '
            f'alt="{escape(self.alt)}" src="data:image/png;base64,{data}"></div>'
        )


@dataclass(frozen=True)
class Folded:
    """A figure of a smaller profile behind a line that opens on a click."""

    line: str
    picture: Picture

    def _repr_html_(self) -> str:
        return folded(self.line, self.picture._repr_html_())


def folded(line: str, inside: str) -> str:
    """HTML that shows a line and opens on a click, without a script.

    What is inside stands between empty lines, behind which Markdown is Markdown again.
    """
    return f"<details><summary>{escape(line)}</summary>\n\n{inside}\n\n</details>"


def _line(kept: Published) -> str:
    return f"Published at {kept.provenance}"


def show(study: str, draw: Callable[[Tables], Figure], tables: Tables, alt: str) -> None:
    """Draws the published run, where there is one, and then this run.

    Published at several profiles, the largest is drawn, and the others are folded below it.
    """
    largest, smaller = _by_size(study)
    for kept in largest:
        display(markdown(f"**Published run**: {kept.provenance}"))
        display(Picture(draw(kept.tables), f"{alt} Published run."))
    for kept in smaller:
        alone = Picture(draw(kept.tables), f"{alt} Published at profile {kept.profile}.")
        display(Folded(_line(kept), alone))
    display(markdown("**This run**"))
    display(Picture(draw(tables), f"{alt} This run."))


def _by_size(study: str) -> tuple[list[Published], list[Published]]:
    """The published run of the largest profile, where there is one, and the others."""
    kept = all_published(study)
    return kept[:1], kept[1:]


def say(read: Callable[[Tables], str], study: str, tables: Tables) -> None:
    """The study's reading, its numbers filled from the published tables and from this run's."""
    largest, smaller = _by_size(study)
    for kept in largest:
        named = f", profile {kept.profile}" if smaller else ""
        display(markdown(f"**Published run{named}.** {read(kept.tables)}"))
    for kept in smaller:
        display(markdown(folded(_line(kept), read(kept.tables))))
    display(markdown(f"**This run.** {read(tables)}"))


def show_table(
    study: str, make: Callable[[Tables], pd.DataFrame], tables: Tables, digits: int = 3
) -> None:
    """A small table of the published run, where there is one, and then of this run."""
    largest, smaller = _by_size(study)
    for kept in largest:
        display(markdown(f"**Published run**: {kept.provenance}"))
        table(make(kept.tables), digits)
    for kept in smaller:
        display(markdown(folded(_line(kept), _in_markdown(make(kept.tables), digits))))
    display(markdown("**This run**"))
    table(make(tables), digits)


def table(frame: pd.DataFrame, digits: int = 3) -> None:
    """A small table as markdown, so that it follows the book's style."""
    display(markdown(_in_markdown(frame, digits)))


def _in_markdown(frame: pd.DataFrame, digits: int) -> str:
    """Numbers on the right; a cell stays empty where there is none.

    Headings are words, which a line can be broken between.
    """

    def shown(cell: object) -> object:
        if pd.isna(cell):
            return ""
        return f"{cell:.{digits}g}" if isinstance(cell, float) else cell

    numbers = frame.select_dtypes("number").columns
    sides = ["right" if name in numbers else "left" for name in frame]
    # Text stays as it is: an offset of +1 is no number.
    headed = frame.map(shown).rename(columns=lambda name: str(name).replace("_", " "))
    return headed.to_markdown(index=False, disable_numparse=True, colalign=sides)


def compare(study: str, config: Config, tables: Tables) -> None:
    """Each claim of the study: the work's number, this run's, and the published run's.

    Published at several profiles, the largest stands here, and the others are folded below. A
    profile is not compared with itself.
    """
    ledger = load()
    largest, smaller = _by_size(study)
    results = _results(ledger, study, config.profile, tables)
    for kept in _others(largest, config):
        results += _results(ledger, study, kept.profile, kept.tables)
    display(markdown(comparison(results)))
    for kept in _others(smaller, config):
        own = _results(ledger, study, kept.profile, kept.tables)
        display(markdown(folded(_line(kept), comparison(own))))


def _others(kept: list[Published], config: Config) -> list[Published]:
    return [each for each in kept if each.profile != config.profile]


def _results(ledger: Ledger, study: str, profile: str, tables: Tables) -> list[Result]:
    """The study's claims; what other studies know of the models comes from those published."""
    claims = tables["claims"]
    named = claims.assign(seed=[seed_text(seed) for seed in claims["seed"]])
    rows = checked(ledger, named, study, f"{study} at {profile}")
    evidence = Evidence(paths.RESULTS / profile, {study: tables})
    return [
        result(ledger, claim, profile, rows[rows["claim"] == claim.id], evidence)
        for claim in ledger.claims
        if claim.study == study
    ]
