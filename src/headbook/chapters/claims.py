"""The claims of a page over all models that were published: one row per claim, with its verdict."""

from collections import Counter

import pandas as pd

from headbook.claims.ledger import load
from headbook.claims.render import SYMBOLS
from headbook.claims.rule import Outcome
from headbook.claims.scorecard import checked
from headbook.claims.verdict import Verdict, outcomes, verdict

RELEASED = "released"
"""What stands as the corpus of models that others trained."""


def judged(page: str, claims: pd.DataFrame) -> tuple[pd.DataFrame, dict[Verdict, int]]:
    """The table of a page's claims, and how many have which verdict.

    `claims` has the rows of all models; in the table released models and those trained here are
    counted apart: how many pass the rule, of how many that count.
    """
    ledger = load()
    named = claims.assign(seed=[_seed(seed) for seed in claims["seed"]])
    rows = checked(ledger, named, page, page)
    lines, verdicts = [], []
    for claim in ledger.claims:
        if claim.study != page:
            continue
        mine = rows[rows["claim"] == claim.id]
        found = outcomes(ledger, claim, mine)
        released = list(mine["corpus"] == RELEASED)
        verdicts.append(verdict(found))
        lines.append({
            "claim": f"{claim.claim} ({claim.where})",
            "counts when": claim.rule.in_words(),
            "released": _passing(found, released),
            "trained here": _passing(found, [not each for each in released]),
            "verdict": f"{SYMBOLS[verdicts[-1]]} {verdicts[-1]}",
        })  # fmt: skip
    return pd.DataFrame(lines), dict(Counter(verdicts))


def _passing(found: list[Outcome], wanted: list[bool]) -> str:
    counted = [each for each, mine in zip(found, wanted, strict=True)
               if mine and each is not Outcome.OUTSIDE]  # fmt: skip
    if not counted:
        return "–"
    return f"{sum(each is Outcome.PASS for each in counted)} of {len(counted)} pass"


def _seed(seed: object) -> str:
    """As it was given: a column with a gap holds 0 as 0.0."""
    if pd.isna(seed):
        return ""
    return str(int(seed)) if isinstance(seed, float) else str(seed)
