"""A verdict rule: structured data that says when one measured number agrees with a claim."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# 0.82 - 0.72 is a hair under 0.10 in binary: a boundary value must fall on its own side.
ROUNDING = 1e-9


class Comparison(StrEnum):
    """What is asked of the number."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    MORE_THAN = "more_than"
    LESS_THAN = "less_than"
    WITHIN = "within"
    MARGIN_WITHIN = "margin_within"
    EXCEEDS_BASELINE_BY = "exceeds_baseline_by"
    DIFFERS_FROM_ZERO = "differs_from_zero"


class Column(StrEnum):
    """Which number of the row is read: the estimate or an end of its 95 % interval."""

    VALUE = "value"
    LOW = "low"
    HIGH = "high"


class Outcome(StrEnum):
    """What one row says about its claim."""

    PASS = "passes"
    FAIL = "fails"
    NO_NUMBER = "no number"
    OUTSIDE = "outside the claim's domain"


RANGED = (Comparison.WITHIN, Comparison.MARGIN_WITHIN)
AGAINST_BASELINE = (Comparison.EXCEEDS_BASELINE_BY, Comparison.MARGIN_WITHIN)


@dataclass(frozen=True)
class Rule:
    """One rule; `threshold` or `range` is set according to the test, the other is None."""

    test: Comparison
    reads: Column = Column.VALUE
    threshold: float | None = None
    range: tuple[float, float] | None = None

    def in_words(self) -> str:
        """The rule as a reader's sentence fragment, for the scorecard."""
        return _WORDS[self.test].format(
            reads={"value": "the value", "low": "the interval's low end"}.get(
                self.reads, "the interval's high end"
            ),
            threshold=self.threshold,
            range=None if self.range is None else f"{self.range[0]:g} to {self.range[1]:g}",
        )


_WORDS = {
    Comparison.AT_LEAST: "{reads} is at least {threshold:g}",
    Comparison.AT_MOST: "{reads} is at most {threshold:g}",
    Comparison.MORE_THAN: "{reads} is more than {threshold:g}",
    Comparison.LESS_THAN: "{reads} is less than {threshold:g}",
    Comparison.WITHIN: "{reads} lies in {range}",
    Comparison.MARGIN_WITHIN: "{reads} minus the baseline lies in {range}",
    Comparison.EXCEEDS_BASELINE_BY: "{reads} exceeds the baseline by at least {threshold:g}",
    Comparison.DIFFERS_FROM_ZERO: "the interval does not hold zero",
}


def needed(rule: Rule) -> tuple[str, ...]:
    """The columns that must hold a number for the rule to be decided."""
    if rule.test is Comparison.DIFFERS_FROM_ZERO:
        return ("low", "high")
    return (rule.reads.value, "baseline") if rule.test in AGAINST_BASELINE else (rule.reads.value,)


def judge(rule: Rule, row: Mapping[str, float]) -> Outcome:
    """Apply a rule to a row with the columns value, low, high and baseline.

    A needed number that is NaN gives NO_NUMBER: it is not a pass, and it is not hidden. An
    infinite one is a number of no use either. Boundaries belong to the claim for at_least, at_most,
    within, margin_within and exceeds_baseline_by, and not for more_than and less_than.
    """
    if not all(math.isfinite(row[column]) for column in needed(rule)):
        return Outcome.NO_NUMBER
    return Outcome.PASS if _holds(rule, row) else Outcome.FAIL


def _holds(rule: Rule, row: Mapping[str, float]) -> bool:
    if rule.test is Comparison.DIFFERS_FROM_ZERO:
        return row["low"] > 0 or row["high"] < 0
    number = row[rule.reads.value]
    if rule.test in AGAINST_BASELINE:
        number -= row["baseline"]
    if rule.test in RANGED:
        low, high = rule.range
        return low - ROUNDING <= number <= high + ROUNDING
    match rule.test:
        case Comparison.AT_LEAST | Comparison.EXCEEDS_BASELINE_BY:
            return number >= rule.threshold - ROUNDING
        case Comparison.AT_MOST:
            return number <= rule.threshold + ROUNDING
        case Comparison.MORE_THAN:
            return number > rule.threshold + ROUNDING
        case _:
            return number < rule.threshold - ROUNDING
