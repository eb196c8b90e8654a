"""The scorecard: every claim judged on the published results."""

from collections.abc import Mapping
from pathlib import Path

from headbook.claims import cells
from headbook.claims.ledger import Ledger, load
from headbook.claims.verdict import Result, judged, verdict


def current(root: Path | None = None, ledger: Ledger | None = None) -> dict[str, Result]:
    """Every claim by its id, judged on the published tables in `root` (data/results).

    UserError where a claim's cells are not there, or are not as a claim needs them.
    """
    ledger, found = ledger or load(), {}
    for claim in ledger.claims:
        models = judged(ledger, claim, cells.rows(claim, root), root)
        found[claim.id] = Result(claim, models, verdict(models))
    return found


def stated(found: Mapping[str, Result] | None = None) -> dict[str, str]:
    """The verdict of every claim by its id, or why it is not counted, as prose cites it."""
    found = current() if found is None else found
    return {name: each.uncounted or each.verdict.value for name, each in found.items()}
