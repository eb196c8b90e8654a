"""The scorecard: every claim beside the published results, as a tidy table and as a page."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from headbook import paths
from headbook.claims import board, cells
from headbook.claims.ledger import Ledger, load
from headbook.claims.published import Evidence
from headbook.claims.verdict import COLUMNS, NUMBERS, Result, result

TIDY = ("work", "where", "study", *COLUMNS, "seeds", "outcome", "closed", "uncounted", "verdict")


def page(
    pages: str = "../notebooks", root: Path | None = None, ledger: Ledger | None = None
) -> str:
    """The scorecard page in MyST Markdown, from the published tables in `root` (data/results).

    `pages` is where the pages are, from this one, for the links.
    """
    ledger = ledger or load()
    return board.page(ledger, list(current(root, ledger).values()), pages)


def tidy(root: Path | None = None, ledger: Ledger | None = None) -> pd.DataFrame:
    """One row per claim and model with outcome and verdict, columns TIDY.

    Models that differ in their seed alone are one, with the interval over seeds. A claim without
    rows has one row with empty numbers and `not run`.
    """
    found = current(root, ledger).values()
    return pd.DataFrame([row for each in found for row in _rows(each)], columns=TIDY)


def current(root: Path | None = None, ledger: Ledger | None = None) -> dict[str, Result]:
    """Every claim by its id, judged on the published tables in `root` (data/results).

    UserError where a claim's cells are not there, or are not as a claim needs them.
    """
    ledger, root = ledger or load(), root or paths.RESULTS
    evidence = Evidence(root)
    return {
        claim.id: result(ledger, claim, cells.rows(claim, root), evidence)
        for claim in ledger.claims
    }


def stated(found: Mapping[str, Result] | None = None) -> dict[str, str]:
    """The verdict of every claim by its id, or why it is not counted, as prose cites it."""
    found = current() if found is None else found
    return {name: each.uncounted or each.verdict.value for name, each in found.items()}


def _rows(result: Result) -> Iterator[dict]:
    claim = result.claim
    frame = {
        "work": claim.work,
        "where": claim.where,
        "study": claim.study,
        "claim": claim.id,
        "uncounted": result.uncounted,
        "verdict": result.verdict.value,
    }
    if not result.models:
        yield {**dict.fromkeys(NUMBERS, np.nan), **frame}
    for each in result.models:
        first = {name: each.rows[0][name] for name in ("target", "seed")}
        named = {"model": each.model, "corpus": each.corpus, "seeds": each.seeds}
        shut = "; ".join(f"{gate}: {why}" if why else gate for gate, why in each.closed.items())
        yield {**first, **named, **each.row, **frame, "outcome": each.outcome.value, "closed": shut}
