"""The claims of a page over all models that were published: one row per claim, with its verdict."""

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from headbook import paths
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import Kind, load
from headbook.claims.published import Evidence
from headbook.claims.render import SYMBOLS
from headbook.claims.rule import Outcome
from headbook.claims.scorecard import checked
from headbook.claims.verdict import COLUMNS, OPTIONAL, Judged, Verdict, result, seed_text


def judged(page: str, claims: pd.DataFrame) -> tuple[pd.DataFrame, dict[Verdict, int]]:
    """The table of a page's claims, and how many findings among them have which verdict.

    `claims` has the rows of all models; the table counts the outcomes of released models and of
    those trained here apart.
    """
    ledger = load()
    columns = [*COLUMNS, *(name for name in OPTIONAL if name in claims)]
    named = claims[columns].assign(seed=[seed_text(seed) for seed in claims["seed"]])
    rows = checked(ledger, named, page, page)
    lines, verdicts = [], []
    for claim in ledger.claims:
        if claim.study != page:
            continue
        evidence = Evidence(paths.RESULTS / claim.profile)
        found = result(ledger, claim, claim.profile, rows[rows["claim"] == claim.id], evidence)
        if claim.kind is Kind.FINDING:
            verdicts.append(found.verdict)
        lines.append({
            "claim": f"{claim.claim} ({claim.where})",
            "counts when": claim.rule.in_words(),
            "released": _outcomes(each for each in found.models if each.corpus == RELEASED),
            "trained here": _outcomes(each for each in found.models if each.corpus != RELEASED),
            "verdict": f"{SYMBOLS[found.verdict]} {found.verdict}",
        })  # fmt: skip
    return pd.DataFrame(lines), dict(Counter(verdicts))


def _outcomes(models: Iterable[Judged]) -> str:
    """`1 passes, 2 undecided`."""
    found = Counter(each.outcome for each in models)
    return ", ".join(f"{found[each]} {each}" for each in Outcome if found[each]) or "–"
