"""The claims of a page over all models that were published: one row per claim, with its verdict."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import pandas as pd

from headbook import paths
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import Claim, load
from headbook.claims.published import Evidence
from headbook.claims.render import SYMBOLS, ruled
from headbook.claims.rule import Outcome
from headbook.claims.scorecard import checked
from headbook.claims.verdict import (
    COLUMNS,
    OPTIONAL,
    Judged,
    Result,
    Verdict,
    result,
    seed_text,
)

SCORECARD = "../_generated/scorecard.html"
"""Where the scorecard is, from a page of the book; the id of a claim is its anchor there."""


@dataclass(frozen=True)
class Claims:
    """The claims of a page with their verdicts, superseded ones last."""

    results: tuple[Result, ...]

    @property
    def counted(self) -> dict[Verdict, int]:
        """How many of the claims that the scorecard counts have which verdict."""
        return dict(Counter(each.verdict for each in self.results if not each.uncounted))

    @property
    def table(self) -> pd.DataFrame:
        """One row per claim; outcomes of released models and of those trained here apart."""
        return pd.DataFrame([_row(each) for each in self.results])

    @property
    def definitions(self) -> str:
        """HTML: one fold per claim with its measure, unit, rule, gates and former forms."""
        if not self.results:
            return ""
        folds = "".join(_fold(each.claim) for each in self.results)
        return f'<div class="headbook-claims"><p>What each claim means:</p>{folds}</div>'


def judged(page: str, claims: pd.DataFrame) -> Claims:
    """The claims of a page; `claims` has the rows of all models."""
    ledger = load()
    columns = [*COLUMNS, *(name for name in OPTIONAL if name in claims)]
    named = claims[columns].assign(seed=[seed_text(seed) for seed in claims["seed"]])
    rows = checked(ledger, named, page, page)
    mine = [claim for claim in ledger.claims if claim.study == page]
    return Claims(tuple(
        result(ledger, claim, claim.profile, rows[rows["claim"] == claim.id],
               Evidence(paths.RESULTS / claim.profile))
        for claim in sorted(mine, key=lambda claim: claim.superseded is not None)
    ))  # fmt: skip


def _row(found: Result) -> dict[str, str]:
    verdict = f"{SYMBOLS[found.verdict]} {found.verdict}"
    return {
        "claim": f"{found.claim.claim} ({found.claim.where})",
        "counts when": found.claim.rule.in_words(),
        "released": _outcomes(each for each in found.models if each.corpus == RELEASED),
        "trained here": _outcomes(each for each in found.models if each.corpus != RELEASED),
        "verdict": f"superseded ({verdict})" if found.claim.superseded else verdict,
    }


def _fold(claim: Claim) -> str:
    """One claim, folded."""
    mark = "Superseded: " if claim.superseded else ""
    lines = [*map(_text, ruled(claim)), *_links(claim)]
    inside = "".join(f"<p>{line}</p>" for line in lines)
    return f"<details><summary>{mark}{_text(claim.claim)}</summary>{inside}</details>"


def _links(claim: Claim) -> Iterator[str]:
    link = f'<a href="{SCORECARD}#{escape(claim.id)}">On the scorecard</a>'
    if claim.superseded:
        link += f', and <a href="{SCORECARD}#{escape(claim.superseded)}">the claim in its place</a>'
    yield link


def _text(text: str) -> str:
    """Escaped, on one line."""
    return escape(" ".join(text.split()))


def _outcomes(models: Iterable[Judged]) -> str:
    """`1 passes, 2 undecided`."""
    found = Counter(each.outcome for each in models)
    return ", ".join(f"{found[each]} {each}" for each in Outcome if found[each]) or "–"
