"""A verdict rule: structured data that says when a measured number agrees with a claim."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

Number = Annotated[float, Field(strict=True)]

# 0.82 - 0.72 is a hair under 0.10 in binary: a boundary value must fall on its own side.
ROUNDING = 1e-9


class Comparison(StrEnum):
    """Comparison of a number with a threshold."""

    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    MORE_THAN = "more_than"
    LESS_THAN = "less_than"
    WITHIN = "within"
    MARGIN_WITHIN = "margin_within"
    EXCEEDS_BASELINE_BY = "exceeds_baseline_by"


class Outcome(StrEnum):
    """Outcome of a claim for one model."""

    PASS = "passes"
    FAIL = "fails"
    UNDECIDED = "undecided"
    CLOSED = "not applicable"
    NO_NUMBER = "no number"
    OUTSIDE = "outside the claim's domain"


JUDGED = (Outcome.PASS, Outcome.FAIL, Outcome.UNDECIDED)
RANGED = (Comparison.WITHIN, Comparison.MARGIN_WITHIN)
ORDERINGS = (Comparison.MORE_THAN, Comparison.LESS_THAN)
AGAINST_BASELINE = (Comparison.EXCEEDS_BASELINE_BY, Comparison.MARGIN_WITHIN)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Rule:
    """One rule; `threshold` or `range` is set according to the test, the other is None."""

    test: Comparison
    threshold: Number | None = None
    range: tuple[Number, Number] | None = None

    @model_validator(mode="after")
    def _has_its_bound(self) -> "Rule":
        bound = "range" if self.test in RANGED else "threshold"
        if [name for name in ("threshold", "range") if getattr(self, name) is not None] != [bound]:
            raise ValueError(f"{self.test} needs {bound} and nothing else")
        if self.range and self.range[0] > self.range[1]:
            raise ValueError(f"range {list(self.range)} holds nothing; put the lower end first")
        return self

    @property
    def passing(self) -> tuple[float, float]:
        """The smallest and the largest number that pass.

        A boundary belongs to the claim, except that of an ordering, where the next number does.
        """
        if self.test in RANGED:
            return self.range[0] - ROUNDING, self.range[1] + ROUNDING
        match self.test:
            case Comparison.MORE_THAN:
                return math.nextafter(self.threshold + ROUNDING, math.inf), math.inf
            case Comparison.LESS_THAN:
                return -math.inf, math.nextafter(self.threshold - ROUNDING, -math.inf)
            case Comparison.AT_MOST:
                return -math.inf, self.threshold + ROUNDING
            case _:
                return self.threshold - ROUNDING, math.inf

    def in_words(self) -> str:
        """The rule as a reader's sentence fragment, for the scorecard."""
        known = self.threshold if self.range is None else "{:g} to {:g}".format(*self.range)
        return _WORDS[self.test].format(known)


_WORDS = {
    Comparison.AT_LEAST: "the value is at least {:g}",
    Comparison.AT_MOST: "the value is at most {:g}",
    Comparison.MORE_THAN: "the value is more than {:g}",
    Comparison.LESS_THAN: "the value is less than {:g}",
    Comparison.WITHIN: "the value lies in {}",
    Comparison.MARGIN_WITHIN: "the value minus the baseline lies in {}",
    Comparison.EXCEEDS_BASELINE_BY: "the value exceeds the baseline by at least {:g}",
}


def judge(rule: Rule, row: Mapping[str, float]) -> Outcome:
    """Apply a rule to a row with the columns value, low, high and baseline.

    The whole interval decides: it passes where the rule holds throughout, fails where it holds
    nowhere, and is undecided where it holds the boundary. Without an interval the value stands for
    it, except in an ordering (more_than, less_than), which is then undecided. A value or a needed
    baseline that is not finite gives NO_NUMBER.
    """
    if not math.isfinite(number := margin(rule, row, "value")):
        return Outcome.NO_NUMBER
    low, high = (margin(rule, row, end) for end in ("low", "high"))
    if not (math.isfinite(low) and math.isfinite(high)):
        if rule.test in ORDERINGS:
            return Outcome.UNDECIDED
        low = high = number
    least, most = rule.passing
    if least <= low and high <= most:
        return Outcome.PASS
    return Outcome.FAIL if high < least or low > most else Outcome.UNDECIDED


def margin(rule: Rule, row: Mapping[str, float], column: str) -> float:
    """The number that is compared: a column, less the baseline where the rule is against one."""
    return row[column] - (row["baseline"] if rule.test in AGAINST_BASELINE else 0.0)
