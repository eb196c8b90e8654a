"""Each verdict is reached by a planted table."""

import pandas as pd
import pytest

from headbook.claims.ledger import Claim, Ledger
from headbook.claims.rule import Column, Comparison, Outcome, Rule
from headbook.claims.verdict import COLUMNS, Verdict, outcomes, verdict

SHORT = Claim(
    id="a-claim",
    work="some2020",
    where="Figure 1",
    claim="Something holds.",
    paper=(),
    unit="share",
    study="13_syntactic_heads",
    domain="short",
    measure="A share.",
    rule=Rule(Comparison.AT_LEAST, Column.LOW, threshold=0.8),
    because="The work says so.",
    profile="laptop",
)
LEDGER = Ledger((SHORT,), {"some2020": "Some 2020"}, {"short": ("tatoeba",)})


def rows(*measured):
    """Rows of (corpus, low)."""
    return pd.DataFrame(
        [
            ["a-claim", f"{corpus}-{seed}", corpus, "de", str(seed), 0.85, low, 0.95, float("nan")]
            for seed, (corpus, low) in enumerate(measured)
        ],
        columns=COLUMNS,
    )


NAN = float("nan")


@pytest.mark.parametrize(
    ("measured", "expected"),
    [
        ([("tatoeba-de", 0.8), ("tatoeba-fr", 0.9)], Verdict.REPLICATED),
        ([("tatoeba-de", 0.8), ("tatoeba-fr", 0.7)], Verdict.PARTLY),
        ([("tatoeba-de", 0.8), ("tatoeba-fr", NAN)], Verdict.PARTLY),
        ([("tatoeba-de", 0.7), ("tatoeba-fr", 0.7)], Verdict.DIFFERS),
        ([("tatoeba-de", NAN)], Verdict.DIFFERS),
        ([], Verdict.NOT_YET_RUN),
        ([("msdocs-de", 0.9)], Verdict.NOT_YET_RUN),
        ([("tatoeba-de", 0.9), ("msdocs-de", 0.1)], Verdict.REPLICATED),
        ([("tatoeba-de", 0.1), ("msdocs-de", 0.9)], Verdict.DIFFERS),
    ],
)
def test_each_verdict_is_reached(measured, expected):
    assert verdict(outcomes(LEDGER, SHORT, rows(*measured))) is expected


def test_the_outcomes_keep_the_order_of_the_rows():
    measured = rows(("tatoeba-de", 0.8), ("msdocs-de", 0.9), ("tatoeba-fr", NAN), ("tatoeba-ru", 0))
    assert outcomes(LEDGER, SHORT, measured) == [
        Outcome.PASS,
        Outcome.OUTSIDE,
        Outcome.NO_NUMBER,
        Outcome.FAIL,
    ]
