"""Every test of a rule: its boundary, its missing number, a planted fault."""

import math

import pytest

from headbook.claims import rule as module
from headbook.claims.rule import Column, Comparison, Outcome, Rule, judge

NAN = math.nan


def row(value=NAN, low=NAN, high=NAN, baseline=NAN):
    return {"value": value, "low": low, "high": high, "baseline": baseline}


BOUNDARIES = [
    (Rule(Comparison.AT_LEAST, threshold=0.9), row(0.9), row(0.8999)),
    (Rule(Comparison.AT_MOST, threshold=0.13), row(0.13), row(0.1301)),
    (Rule(Comparison.MORE_THAN, threshold=0.5), row(0.5001), row(0.5)),
    (Rule(Comparison.LESS_THAN, threshold=0.0), row(-0.0001), row(0.0)),
    (Rule(Comparison.WITHIN, range=(4.0, 13.0)), row(4.0), row(3.0)),
    (Rule(Comparison.WITHIN, range=(4.0, 13.0)), row(13.0), row(14.0)),
    # 0.82 - 0.72 and 0.45 - 0.35 are not 0.10 in binary arithmetic.
    (
        Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.1),
        row(0.82, baseline=0.72),
        row(0.8199, baseline=0.72),
    ),
    (
        Rule(Comparison.MARGIN_WITHIN, range=(0.0, 0.1)),
        row(0.45, baseline=0.35),
        row(0.4501, baseline=0.35),
    ),
    (
        Rule(Comparison.MARGIN_WITHIN, range=(0.0, 0.1)),
        row(0.3, baseline=0.3),
        row(0.2999, baseline=0.3),
    ),
    (Rule(Comparison.DIFFERS_FROM_ZERO), row(0.2, 0.01, 0.3), row(0.2, 0.0, 0.3)),
    (Rule(Comparison.DIFFERS_FROM_ZERO), row(-0.2, -0.3, -0.01), row(-0.2, -0.3, 0.0)),
]


@pytest.mark.parametrize(("rule", "inside", "outside"), BOUNDARIES)
def test_a_boundary_falls_on_its_side(rule, inside, outside):
    assert judge(rule, inside) is Outcome.PASS
    assert judge(rule, outside) is Outcome.FAIL


def test_every_comparison_has_a_boundary_case():
    assert {rule.test for rule, _, _ in BOUNDARIES} == set(Comparison)


def test_the_named_column_is_read():
    measured = row(value=0.85, low=0.75, high=0.95)
    passed = {
        column: judge(Rule(Comparison.AT_LEAST, column, threshold=0.9), measured)
        for column in Column
    }
    assert passed == {"value": Outcome.FAIL, "low": Outcome.FAIL, "high": Outcome.PASS}
    assert judge(Rule(Comparison.AT_LEAST, Column.LOW, threshold=0.8), measured) is Outcome.FAIL


def test_the_margin_takes_the_named_column_and_the_baseline():
    measured = row(value=0.60, low=0.52, high=0.66, baseline=0.45)
    for column, outcome in (("value", Outcome.PASS), ("low", Outcome.FAIL)):
        rule = Rule(Comparison.EXCEEDS_BASELINE_BY, Column(column), threshold=0.10)
        assert judge(rule, measured) is outcome


@pytest.mark.parametrize(
    ("rule", "measured"),
    [
        (Rule(Comparison.AT_LEAST, threshold=0.0), row()),
        (Rule(Comparison.AT_MOST, threshold=1.0), row()),
        (Rule(Comparison.AT_LEAST, Column.LOW, threshold=0.0), row(value=1.0)),
        (Rule(Comparison.LESS_THAN, Column.HIGH, threshold=9.0), row(value=1.0)),
        (Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.1), row(value=1.0)),
        (Rule(Comparison.MARGIN_WITHIN, range=(-1.0, 1.0)), row(baseline=0.3)),
        (Rule(Comparison.DIFFERS_FROM_ZERO), row(value=1.0, low=0.5)),
        (Rule(Comparison.AT_LEAST, threshold=0.0), row(value=math.inf)),
    ],
)
def test_a_missing_number_is_said_and_is_no_pass(rule, measured):
    assert judge(rule, measured) is Outcome.NO_NUMBER


def test_a_number_that_is_not_needed_may_be_missing():
    assert judge(Rule(Comparison.AT_LEAST, threshold=0.5), row(value=0.6)) is Outcome.PASS


def test_a_wrong_strictness_would_be_seen(monkeypatch):
    """Plants the fault: a rounding allowance of the wrong sign makes every bound exclusive."""
    monkeypatch.setattr(module, "ROUNDING", -1e-3)
    caught = [
        rule.test
        for rule, inside, outside in BOUNDARIES
        if judge(rule, inside) is not Outcome.PASS or judge(rule, outside) is not Outcome.FAIL
    ]
    assert set(caught) == set(Comparison) - {Comparison.DIFFERS_FROM_ZERO}


def test_the_rule_in_words_names_column_and_number():
    words = Rule(Comparison.MORE_THAN, Column.LOW, threshold=0.8).in_words()
    assert words == "the interval's low end is more than 0.8"
    assert "4 to 13" in Rule(Comparison.WITHIN, range=(4.0, 13.0)).in_words()
