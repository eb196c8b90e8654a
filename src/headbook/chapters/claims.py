"""The claims of a page over all models that were published: one row per claim, with its verdict."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from headbook import paths
from headbook.claims.ledger import load
from headbook.claims.published import Evidence
from headbook.claims.render import named
from headbook.claims.rule import Outcome
from headbook.claims.scorecard import checked
from headbook.claims.verdict import Judged, Verdict, result

RELEASED = "released"
"""What stands as the corpus of models that others trained."""
TRAINED = "laptop"
"""The profile whose tables say which gates of a model trained here are closed."""


def judged(page: str, claims: pd.DataFrame) -> tuple[pd.DataFrame, dict[Verdict, int]]:
    """The table of a page's claims, and how many have which verdict.

    `claims` has the rows of all models; in the table released models and those trained here are
    counted apart: how many pass the rule, of how many that count.
    """
    ledger, evidence = load(), Evidence(paths.RESULTS / TRAINED)
    seeded = claims.assign(seed=[_seed(seed) for seed in claims["seed"]])
    rows = checked(ledger, seeded, page, page)
    lines, verdicts = [], []
    for claim in ledger.claims:
        if claim.study != page:
            continue
        found = result(ledger, claim, TRAINED, rows[rows["claim"] == claim.id], evidence)
        verdicts.append(found.verdict)
        lines.append({
            "claim": f"{claim.claim} ({claim.where})",
            "counts when": claim.rule.in_words(),
            "released": _passing([each for each in found.models if each.corpus == RELEASED]),
            "trained here": _passing([each for each in found.models if each.corpus != RELEASED]),
            "verdict": named(found),
        })  # fmt: skip
    return pd.DataFrame(lines), dict(Counter(verdicts))


def _passing(models: Sequence[Judged]) -> str:
    counted = [each.outcome for each in models if each.outcome is not Outcome.OUTSIDE]
    if not counted:
        return "–"
    return f"{sum(each is Outcome.PASS for each in counted)} of {len(counted)} pass"


def _seed(seed: object) -> str:
    """As it was given: a column with a gap holds 0 as 0.0."""
    if pd.isna(seed):
        return ""
    return str(int(seed)) if isinstance(seed, float) else str(seed)
