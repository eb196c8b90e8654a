"""From the rows of a claim to its verdict."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from headbook.claims.ledger import Claim, Ledger
from headbook.claims.rule import Outcome, judge

COLUMNS = (
    "claim", "model", "corpus", "target", "seed", "value", "low", "high", "baseline",
)  # fmt: skip
NUMBERS = ("value", "low", "high", "baseline")


class Verdict(StrEnum):
    """What the models of one profile say together about a claim."""

    REPLICATED = "replicated"
    PARTLY = "partly"
    DIFFERS = "differs"
    NOT_YET_RUN = "not yet run"


@dataclass(frozen=True)
class Result:
    """A claim at one profile: its rows (COLUMNS plus `outcome`), and the verdict over them."""

    claim: Claim
    profile: str
    rows: pd.DataFrame
    verdict: Verdict


def outcomes(ledger: Ledger, claim: Claim, rows: pd.DataFrame) -> list[Outcome]:
    """The outcome of each row of this claim, in order; rows have the columns of COLUMNS."""
    return [
        judge(claim.rule, {name: float(row[name]) for name in NUMBERS})
        if ledger.applies(claim, row["corpus"])
        else Outcome.OUTSIDE
        for row in rows.to_dict("records")
    ]


def verdict(found: Iterable[Outcome]) -> Verdict:
    """Replicated when every row passes, partly when some do, differs when none does.

    A row without a number does not pass. Rows outside the claim's domain do not count; when none
    counts the claim has not been run.
    """
    counted = [outcome for outcome in found if outcome is not Outcome.OUTSIDE]
    if not counted:
        return Verdict.NOT_YET_RUN
    passed = sum(outcome is Outcome.PASS for outcome in counted)
    if passed == len(counted):
        return Verdict.REPLICATED
    return Verdict.PARTLY if passed else Verdict.DIFFERS
