"""`hb.paper`: numbers that the works print, from the ledger."""

from collections.abc import Collection

import pandas as pd

from headbook.claims.ledger import load
from headbook.types import UserError


def paper(claims: str | Collection[str], of: str | None = None) -> pd.DataFrame:
    """The numbers that a work prints for these claims, in their order.

    One row per claim and number, with the columns claim, of (what the number belongs to), value,
    and baseline, empty where the work has none. `of` takes the numbers of that text or model alone.
    UserError for an unknown claim, and where a claim has no such number.
    """
    ledger, rows = load(), []
    for claim in map(ledger.claim, [claims] if isinstance(claims, str) else claims):
        printed = [each for each in claim.paper if of in (None, each.of)]
        if not printed:
            there = ", ".join(each.of for each in claim.paper) or "none"
            raise UserError(f"{claim.id} has no number of {of!r} in the ledger; it has {there}")
        rows += [
            {"claim": claim.id, "of": each.of, "value": value, "baseline": each.baseline}
            for each in printed
            for value in each.values
        ]
    return pd.DataFrame(rows).astype({"value": float, "baseline": float})
