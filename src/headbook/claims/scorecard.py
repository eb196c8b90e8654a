"""The scorecard: every claim beside the published results, as a tidy table and as a page."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from headbook.claims import render
from headbook.claims.ledger import PROFILES, Claim, Ledger, load
from headbook.claims.rule import Outcome
from headbook.claims.verdict import COLUMNS, NUMBERS, Result, outcomes, verdict
from headbook.types import UserError

TIDY = ("work", "where", "study", "profile", *COLUMNS, "outcome", "verdict")


def page(results_root: Path, pages: str = "/notebooks", ledger: Ledger | None = None) -> str:
    """The scorecard page in MyST markdown, from <results_root>/<profile>/<study>/claims.csv.

    `pages` is the folder of the studies' pages in the book's source, for the links. UserError when
    a results table has a fault.
    """
    ledger = ledger or load()
    return render.page(ledger, results(ledger, results_root), pages)


def tidy(results_root: Path, ledger: Ledger | None = None) -> pd.DataFrame:
    """One row a (claim, profile, model) with outcome and verdict, columns TIDY.

    A claim without rows at a profile has one row with empty numbers and `not yet run`.
    """
    ledger = ledger or load()
    return pd.DataFrame(
        [row for result in results(ledger, results_root) for row in _rows(result)], columns=TIDY
    )


def results(ledger: Ledger, results_root: Path) -> list[Result]:
    """Every claim at every profile that has published results, the largest first.

    A profile at which the ledger has claims judged is among them, published or not.
    """
    measured = read(ledger, results_root)
    shown = {*measured["profile"], *(claim.profile for claim in ledger.claims)}
    profiles = [name for name in reversed(PROFILES) if name in shown]
    return [
        _result(ledger, claim, profile, measured) for claim in ledger.claims for profile in profiles
    ]


def _result(ledger: Ledger, claim: Claim, profile: str, measured: pd.DataFrame) -> Result:
    rows = measured[(measured["claim"] == claim.id) & (measured["profile"] == profile)]
    found = outcomes(ledger, claim, rows)
    return Result(claim, profile, rows.assign(outcome=found), verdict(found))


def _rows(result: Result) -> Iterator[dict]:
    claim = result.claim
    frame = {
        "work": claim.work,
        "where": claim.where,
        "study": claim.study,
        "profile": result.profile,
        "claim": claim.id,
        "verdict": result.verdict.value,
    }
    if result.rows.empty:
        yield {**dict.fromkeys(NUMBERS, np.nan), **frame}
    for row in result.rows.to_dict("records"):
        yield {**row, **frame, "outcome": Outcome(row["outcome"]).value}


def read(ledger: Ledger, results_root: Path) -> pd.DataFrame:
    """All published claims tables under a results folder, with the columns profile and COLUMNS.

    No folder and no table give an empty frame. UserError, naming the file, for a missing or unknown
    column, a number that is none, an unknown claim, a claim of another study, a row given twice.
    """
    empty = pd.DataFrame(columns=["profile", *COLUMNS])
    tables = [
        _table(ledger, path).assign(profile=profile)
        for profile in PROFILES
        for path in sorted((results_root / profile).glob("*/claims.csv"))
    ]
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled, ignore_index=True)[empty.columns] if filled else empty


def _table(ledger: Ledger, path: Path) -> pd.DataFrame:
    named = "/".join(path.parts[-3:])
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as fault:
        raise UserError(f"{named}: not a readable table ({fault}); publish it again") from None
    return checked(ledger, table, path.parent.name, named)


def checked(ledger: Ledger, table: pd.DataFrame, study: str, named: str) -> pd.DataFrame:
    """A study's claims table with its numbers as floats; `named` is what an error calls it.

    UserError for the faults listed at `read`. Studies may call this on what they return.
    """
    if set(table.columns) != set(COLUMNS):
        raise UserError(f"{named}: columns must be {', '.join(COLUMNS)}")
    for line, identifier in enumerate(table["claim"], start=2):
        if (owner := _claim(ledger, identifier, f"{named}, line {line}").study) != study:
            raise UserError(f"{named}, line {line}: claim {identifier} belongs to study {owner}")
    repeated = table.duplicated(["claim", "model", "corpus", "target", "seed"])
    if repeated.any():
        line = int(np.flatnonzero(repeated)[0]) + 2
        raise UserError(f"{named}, line {line}: this claim and model are given twice; keep one")
    # A claim on no model in particular names none; an empty cell comes back as NaN.
    names = {name: table[name].fillna("") for name in ("model", "corpus", "target")}
    return table.assign(**names, **{name: _floats(table[name], named) for name in NUMBERS})


def _claim(ledger: Ledger, identifier: str, where: str) -> Claim:
    try:
        return ledger.claim(identifier)
    except UserError as fault:
        raise UserError(f"{where}: {fault}") from None


def _floats(column: pd.Series, named: str) -> pd.Series:
    try:
        return column.map(lambda cell: float("nan" if cell == "" else cell)).astype(float)
    except (ValueError, TypeError) as fault:
        raise UserError(
            f"{named}: column {column.name} holds something else than numbers: {fault}"
        ) from None
