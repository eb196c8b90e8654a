"""Intervals over sentences about pairs of occupations: both sides of the pairs are drawn again."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headbook.corpora.winobias import MALE, Case
from headbook.statistics import LEVEL, REPLICATES, draws, holm, interval, p_value


def occupations(case: Case) -> tuple[str, str]:
    """The male- and the female-stereotyped occupation of a case."""
    version = next(iter(case.versions.values()))
    own, other = (version.text[slice(*part)].lower() for part in (version.referent, version.other))
    return (own, other) if case.stereotype == MALE else (other, own)


def drawn_again(cases: Sequence[Case]) -> Float[np.ndarray, "replicate case"]:
    """Number of times each replicate counts each case; row 0 counts every case once.

    Male- and female-stereotyped occupations are drawn again apart, and a case counts as often as
    both of its own together (pigeonhole bootstrap, Owen 2007). Sentences that share an occupation
    are no replicates of each other.
    """
    found = np.ones((REPLICATES, len(cases)))
    for side, names in enumerate(zip(*map(occupations, cases), strict=True)):
        known = sorted(set(names))
        drawn = draws(len(known), REPLICATES, side)
        found *= drawn[:, [known.index(name) for name in names]]
    return np.concatenate([np.ones((1, len(cases))), found])


def mean(
    drawn: Float[np.ndarray, "replicate case"], values: np.ndarray, over: np.ndarray | None = None
) -> np.ndarray:
    """The mean of values [case, ...] in every replicate; or their sum as a share of that of `over`.

    NaN where nothing is left to divide by.
    """
    above = drawn @ values
    below = drawn @ (np.ones_like(values) if over is None else over)
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


@dataclass(frozen=True)
class Adjusted:
    """Mean over cases of every head with its interval, and p-values adjusted over all heads."""

    value: Float[np.ndarray, " head"]
    low: Float[np.ndarray, " head"]
    high: Float[np.ndarray, " head"]
    p: Float[np.ndarray, " head"]

    @classmethod
    def of(
        cls, drawn: Float[np.ndarray, "replicate case"], values: Float[np.ndarray, "case head"]
    ) -> "Adjusted":
        """Against zero, two-sided; adjusted by Holm's method."""
        value, low, high = np.transpose([interval(each) for each in mean(drawn, values).T])
        each = [p_value(*numbers, 0.0, None) for numbers in zip(value, low, high, strict=True)]
        return cls(value, low, high, holm(each))

    @property
    def significant(self) -> np.ndarray:
        return self.p < 1 - LEVEL
