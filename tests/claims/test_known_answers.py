"""Every rule of the ledger against known answers by hand, and against the works' own numbers.

`known_answers.csv` has for each claim numbers that just pass and numbers that just fail, taken as
known exactly; where a rule is against a baseline they are the margin. A threshold that moves by a
hundredth of itself is another one.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from headbook.claims.ledger import Claim, Kind, load
from headbook.claims.rule import AGAINST_BASELINE, Outcome, Rule, judge

FILE = Path(__file__).with_name("known_answers.csv")
BEYOND = 1e-6
OTHER_UNIT = {
    "gqa-multi-query-worse": "scores in which more is better, where ours are nats a token",
    "delight-as-good-and-lighter": "scores in which more is better, where ours are nats a token",
    "linformer-trained-quarter-is-enough": "points of accuracy, where ours are nats",
}
"""Claims whose numbers of the work fail the rule, as they are in another unit than the rule's."""
CONTRAST = "the same with its runs without dropout among them"
"""Numbers that fail a rule: the article draws its finding from its runs with dropout."""


def exactly(rule: Rule, value: float, baseline: float = np.nan) -> Outcome:
    return judge(rule, dict.fromkeys(("value", "low", "high"), value) | {"baseline": baseline})


def test_every_rule_passes_and_fails_where_the_known_answers_say() -> None:
    known = pd.read_csv(FILE, dtype=str).set_index("claim")
    claims = {claim.id: claim for claim in load().claims}
    assert known.index.is_unique and set(known.index) == set(claims)
    wrong = [
        (name, number)
        for name, row in known.iterrows()
        for column, outcome in (("passes", Outcome.PASS), ("fails", Outcome.FAIL))
        for number in row[column].split()
        if exactly(claims[name].rule, float(number), baseline=0.0) is not outcome
    ]
    assert wrong == []


def of_the_work(claim: Claim) -> Iterator[Outcome]:
    """Where the rule is of a difference, the work's baseline is subtracted; of a bound, "more
    than", the number is just beyond it. Contrasts are left out."""
    for each in claim.paper:
        known = each.baseline is not None
        shift = each.baseline if known and claim.rule.test not in AGAINST_BASELINE else 0.0
        beyond = BEYOND if each.of.endswith("more than") else 0.0
        for value in each.values if not each.of.startswith(CONTRAST) else ():
            baseline = each.baseline if known else np.nan
            yield exactly(claim.rule, value - shift + beyond, baseline)


def test_the_numbers_of_a_work_pass_the_rule_that_is_made_from_them() -> None:
    findings = [each for each in load().claims if each.kind is Kind.FINDING and not each.superseded]
    printed = {each.id: set(of_the_work(each)) for each in findings if each.paper}
    assert len(printed) > 100
    failing = {name for name, found in printed.items() if found != {Outcome.PASS}}
    assert failing == set(OTHER_UNIT)
