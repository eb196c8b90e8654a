"""What a rule says of an interval, of its baseline, of a lone and of a missing number.

Boundaries of every rule of the ledger are in known_answers.csv.
"""

import math

import pytest

from headbook.claims.rule import Comparison, Outcome, Rule, judge

NAN = math.nan
LESS = Rule(Comparison.LESS_THAN, threshold=0.0)
LEAST = Rule(Comparison.AT_LEAST, threshold=0.0)
WITHIN = Rule(Comparison.WITHIN, range=(0.3, 0.6))
EXCEEDS = Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.1)
NEAR = Rule(Comparison.MARGIN_WITHIN, range=(0.0, 0.1))
PASS, FAIL, UNDECIDED, NO_NUMBER = Outcome.PASS, Outcome.FAIL, Outcome.UNDECIDED, Outcome.NO_NUMBER


@pytest.mark.parametrize(
    ("rule", "value", "ends", "baseline", "outcome"),
    [
        (WITHIN, 0.45, (0.3, 0.6), NAN, PASS),
        (WITHIN, 0.35, (0.2, 0.5), NAN, UNDECIDED),
        (WITHIN, 0.5, (0.1, 0.9), NAN, UNDECIDED),
        (WITHIN, 0.75, (0.61, 0.9), NAN, FAIL),
        (EXCEEDS, 0.60, (0.56, 0.66), 0.45, PASS),
        (EXCEEDS, 0.60, (0.52, 0.66), 0.45, UNDECIDED),
        (EXCEEDS, 0.50, (0.46, 0.54), 0.45, FAIL),
        # a lone number decides, but for an ordering; 0.82 - 0.72 and 0.45 - 0.35 are not 0.1
        (EXCEEDS, 0.82, (NAN, NAN), 0.72, PASS),
        (EXCEEDS, 0.8199, (NAN, NAN), 0.72, FAIL),
        (NEAR, 0.45, (NAN, NAN), 0.35, PASS),
        (NEAR, 0.4501, (NAN, NAN), 0.35, FAIL),
        (LESS, -0.1, (NAN, NAN), NAN, UNDECIDED),
        (LESS, -0.1, (-0.2, -0.0001), NAN, PASS),
        (LESS, 0.0, (0.0, 0.0), NAN, FAIL),
        (LEAST, NAN, (1.0, 2.0), NAN, NO_NUMBER),
        (LEAST, math.inf, (NAN, NAN), NAN, NO_NUMBER),
        (EXCEEDS, 1.0, (NAN, NAN), NAN, NO_NUMBER),
    ],
)
def test_the_whole_interval_decides(rule, value, ends, baseline, outcome):
    row = {"value": value, "low": ends[0], "high": ends[1], "baseline": baseline}
    assert judge(rule, row) is outcome
