"""What a notebook shows: figures with alt text, tables, filled sentences, comparisons."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import pandas as pd
from IPython.display import Markdown, display
from matplotlib.figure import Figure

from headbook.claims.ledger import Ledger, load
from headbook.claims.render import comparison
from headbook.claims.scorecard import checked
from headbook.claims.verdict import Result, outcomes, verdict
from headbook.studies.config import Config
from headbook.studies.results import Published, Tables, published
from headbook.types import UserError

DOTS_PER_INCH = 144
PIXELS_PER_INCH = 84


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


def show(study: str, draw: Callable[[Tables], Figure], tables: Tables, alt: str) -> None:
    """Draws the published run, where there is one, and then this run."""
    kept = published_or_none(study)
    if kept is not None:
        display(Markdown(f"**Published run**: {provenance(kept)}"))
        display(Picture(draw(kept.tables), f"{alt} Published run."))
    display(Markdown("**This run**"))
    display(Picture(draw(tables), f"{alt} This run."))


def published_or_none(study: str, profile: str = "laptop") -> Published | None:
    """The published results, None where the study has none yet."""
    try:
        return published(study, profile)
    except UserError:
        return None


def provenance(kept: Published) -> str:
    """Profile, date, commit and processor of a published run, in one line."""
    run = kept.run
    hardware = run["hardware"]
    machine = hardware["gpu"] or f"{hardware['cores']} cores, {hardware['processor']}"
    return f"profile {kept.profile}, {run['date'][:10]}, commit {run['commit']}, {machine}."


def say(read: Callable[[Tables], str], study: str, tables: Tables) -> None:
    """The study's reading, its numbers filled from the published tables and from this run's."""
    kept = published_or_none(study)
    if kept is not None:
        display(Markdown(f"**Published run.** {read(kept.tables)}"))
    display(Markdown(f"**This run.** {read(tables)}"))


def show_table(
    study: str, make: Callable[[Tables], pd.DataFrame], tables: Tables, digits: int = 3
) -> None:
    """A small table of the published run, where there is one, and then of this run."""
    kept = published_or_none(study)
    if kept is not None:
        display(Markdown(f"**Published run**: {provenance(kept)}"))
        table(make(kept.tables), digits)
    display(Markdown("**This run**"))
    table(make(tables), digits)


def table(frame: pd.DataFrame, digits: int = 3) -> None:
    """A small table as markdown, so that it follows the book's style."""
    display(Markdown(frame.to_markdown(index=False, floatfmt=f".{digits}g")))


def compare(study: str, config: Config, tables: Tables) -> None:
    """Each claim of the study: the work's number, the published runs' and this run's."""
    ledger = load()
    results = [*_results(ledger, study, config.profile, tables["claims"])]
    kept = published_or_none(study)
    if kept is not None and config.profile != kept.profile:
        results += _results(ledger, study, kept.profile, kept.tables["claims"])
    display(Markdown(comparison(results)))


def _results(ledger: Ledger, study: str, profile: str, claims: pd.DataFrame) -> list[Result]:
    named = claims.assign(seed=[_seed(seed) for seed in claims["seed"]])
    rows = checked(ledger, named, study, f"{study} at {profile}")
    found = []
    for claim in ledger.claims:
        mine = rows[rows["claim"] == claim.id]
        if claim.study == study:
            judged = outcomes(ledger, claim, mine)
            found.append(Result(claim, profile, mine.assign(outcome=judged), verdict(judged)))
    return found


def _seed(seed: object) -> str:
    """As it was given: a column with a gap holds 0 as 0.0."""
    if pd.isna(seed):
        return ""
    return str(int(seed)) if isinstance(seed, float) else str(seed)
