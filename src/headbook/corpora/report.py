"""Dropped lines and reasons: nothing leaves a corpus without being counted here."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why a sentence pair was dropped."""

    EMPTY_SIDE = "one side is empty"
    OVER_LONG = "more than 200 tokens on one side"
    NOT_A_PAIR = "no tab between two sides"
    REPEATED = "repeats an earlier pair"
    IN_EVALUATION = "its English sentence is in an evaluation set of this language pair"
    SAME_GROUP = "another pair of its group stands in the evaluation split"
    LOW_OVERLAP = "the subtitles' times overlap by less than 0.9"


@dataclass(frozen=True)
class Report:
    """Pairs read, and pairs dropped by (split, reason). `add` is for the readers only."""

    read: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, Reason]] = field(default_factory=Counter)

    def add(self, split: str, reason: Reason, count: int = 1) -> None:
        if count:
            self.dropped[split, reason] += count

    def total(self, reason: Reason) -> int:
        """Pairs dropped for one reason in all splits."""
        return sum(count for (_, why), count in self.dropped.items() if why is reason)

    def lines(self) -> list[str]:
        """The report for a reader, one line per split and reason; empty if nothing was dropped."""
        return [
            f"{split}: dropped {count:,} of {self.read[split]:,} pairs: {reason}"
            for (split, reason), count in sorted(self.dropped.items())
        ]
