"""The scorecard: every claim beside the published results, as a tidy table and as a page."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from headbook import old_results, paths
from headbook.claims import board, cells
from headbook.claims.gates import RELEASED, parsed
from headbook.claims.ledger import PROFILES, Claim, Ledger, load
from headbook.claims.published import Evidence
from headbook.claims.verdict import COLUMNS, NUMBERS, OPTIONAL, Result, Verdict, result
from headbook.types import UserError

TIDY = (
    "work", "where", "study", "profile", *COLUMNS, "seeds", "outcome", "closed", "uncounted",
    "verdict",
)  # fmt: skip


def page(results_root: Path, pages: str = "../notebooks", ledger: Ledger | None = None) -> str:
    """The scorecard page in MyST Markdown, from the tables of claims in <results_root>.

    `pages` is where the pages are, from this one, for the links. UserError when a results
    table has a fault.
    """
    ledger = ledger or load()
    return board.page(ledger, results(ledger, results_root), pages)


def tidy(results_root: Path, ledger: Ledger | None = None) -> pd.DataFrame:
    """One row per claim, profile and model with outcome and verdict, columns TIDY.

    Models that differ in their seed alone are one, with the interval over seeds. A claim without
    rows at a profile has one row with empty numbers and `not run`.
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
    beside = {name: Evidence(results_root / name) for name in profiles}
    rows = dict(iter(measured.groupby(["claim", "profile"])))
    none = measured.iloc[:0]
    return [
        result(ledger, claim, profile, rows.get((claim.id, profile), none), beside[profile])
        for claim in ledger.claims
        for profile in profiles
    ]


def current(results_root: Path | None = None, ledger: Ledger | None = None) -> dict[str, Result]:
    """Every claim by its id, at the largest profile at which it was measured."""
    found: dict[str, Result] = {}
    for each in results(ledger or load(), results_root or paths.RESULTS):
        if found.setdefault(each.claim.id, each).verdict is Verdict.NOT_RUN:
            found[each.claim.id] = each
    return found


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
        "profile": result.profile,
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


def read(ledger: Ledger, results_root: Path) -> pd.DataFrame:
    """All published claims tables under a results folder, with the columns profile and COLUMNS.

    The rows of a claim whose ledger entry has a `value` come from the cells that it names.
    No folder and no table give an empty frame. UserError, naming the table, for a missing or
    unknown column, a number that is none, an unknown claim, one of another study, a row given twice
    or given beside cells.
    """
    empty = pd.DataFrame(columns=["profile", *COLUMNS, *OPTIONAL])
    judged_at = {claim.id: claim.profile for claim in ledger.claims}
    tables = []
    for profile in (*PROFILES, RELEASED):
        for study in old_results.studies(profile, results_root):
            table = old_results.old_table(study, profile, old_results.CLAIMS, results_root)
            if table is not None:
                table = checked(ledger, table, study, f"{profile}/{study}/{old_results.CLAIMS}")
                # Released models are of no profile: they stand with the models they are beside.
                at = table["claim"].map(judged_at) if profile == RELEASED else profile
                tables.append(table.assign(profile=at))
    pointed = {claim.id: claim for claim in ledger.claims if claim.value}
    for name in {name for table in tables for name in table["claim"]} & pointed.keys():
        raise UserError(f"claim {name} has cells in the ledger and published rows: delete these")
    for claim in pointed.values():
        tables.append(cells.rows(claim, results_root).assign(profile=claim.profile))
    filled = [table for table in tables if not table.empty]
    return pd.concat(filled, ignore_index=True).reindex(columns=empty.columns) if filled else empty


def checked(ledger: Ledger, table: pd.DataFrame, study: str, named: str) -> pd.DataFrame:
    """A study's claims table with its numbers as floats; `named` is what an error calls it.

    UserError for the faults listed at `read`. Studies may call this on what they return.
    """
    if not set(COLUMNS) <= set(table.columns) <= {*COLUMNS, *OPTIONAL}:
        may = ", ".join(OPTIONAL)
        raise UserError(f"{named}: columns must be {', '.join(COLUMNS)}, and may be {may}")
    for line, identifier in enumerate(table["claim"], start=2):
        if (owner := _claim(ledger, identifier, f"{named}, line {line}").study) != study:
            raise UserError(f"{named}, line {line}: claim {identifier} belongs to study {owner}")
    for line, cell in enumerate(table.get("closed", ()), start=2):
        _gates(cell, f"{named}, line {line}")
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


def _gates(cell: object, where: str) -> None:
    try:
        parsed(cell if isinstance(cell, str) else "")
    except UserError as fault:
        raise UserError(f"{where}: {fault}") from None


def _floats(column: pd.Series, named: str) -> pd.Series:
    try:
        return column.map(lambda cell: float("nan" if cell == "" else cell)).astype(float)
    except (ValueError, TypeError) as fault:
        raise UserError(
            f"{named}: column {column.name} holds something else than numbers: {fault}"
        ) from None
