"""Every test of a rule: its boundary, its interval, its missing number."""

import math

import pytest

from headbook.claims.rule import ORDERINGS, Comparison, Outcome, Rule, judge

NAN = math.nan


def row(value=NAN, low=NAN, high=NAN, baseline=NAN):
    return {"value": value, "low": low, "high": high, "baseline": baseline}


def exactly(value, baseline=NAN):
    return row(value, value, value, baseline)


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        (Rule(Comparison.LESS_THAN, threshold=0.0), exactly(-0.0001), exactly(0.0)),
        # 0.82 - 0.72 and 0.45 - 0.35 are not 0.10 in binary arithmetic.
        (
            Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.1),
            exactly(0.82, baseline=0.72),
            exactly(0.8199, baseline=0.72),
        ),
        (
            Rule(Comparison.MARGIN_WITHIN, range=(0.0, 0.1)),
            exactly(0.45, baseline=0.35),
            exactly(0.4501, baseline=0.35),
        ),
    ],
)
def test_a_boundary_falls_on_its_side(rule, inside, outside):
    """And a lone value decides, but for an ordering. Boundaries of every rule are in
    known_answers.csv."""
    assert judge(rule, inside) is Outcome.PASS and judge(rule, outside) is Outcome.FAIL
    alone = [judge(rule, row(each["value"], baseline=each["baseline"]))
             for each in (inside, outside)]  # fmt: skip
    decided = [Outcome.PASS, Outcome.FAIL]
    assert alone == ([Outcome.UNDECIDED] * 2 if rule.test in ORDERINGS else decided)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.3, 0.6, Outcome.PASS),
        (0.2, 0.5, Outcome.UNDECIDED),
        (0.1, 0.9, Outcome.UNDECIDED),
        (0.61, 0.9, Outcome.FAIL),
    ],
)
def test_a_range_and_every_place_of_an_interval(low, high, outcome):
    rule = Rule(Comparison.WITHIN, range=(0.3, 0.6))
    assert judge(rule, row((low + high) / 2, low, high)) is outcome


def test_the_baseline_is_taken_from_the_whole_interval():
    rule = Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.10)
    assert judge(rule, row(0.60, 0.56, 0.66, baseline=0.45)) is Outcome.PASS
    assert judge(rule, row(0.60, 0.52, 0.66, baseline=0.45)) is Outcome.UNDECIDED
    assert judge(rule, row(0.50, 0.46, 0.54, baseline=0.45)) is Outcome.FAIL


@pytest.mark.parametrize("measured", [row(), row(low=1.0, high=2.0), row(value=math.inf)])
def test_a_missing_number_is_said_and_is_no_pass(measured):
    assert judge(Rule(Comparison.AT_LEAST, threshold=0.0), measured) is Outcome.NO_NUMBER
    without = Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.1)
    assert judge(without, row(value=1.0)) is Outcome.NO_NUMBER
