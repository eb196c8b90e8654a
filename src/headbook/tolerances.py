"""How far a number measured again may be from the published one, and why not nearer."""

from dataclasses import dataclass
from math import inf
from numbers import Real

import pandas as pd

from headbook.tables import DIGITS

ROUNDED = 5e-5
"""Share of a number by which its five published digits may be off."""


@dataclass(frozen=True)
class Tolerance:
    """Largest difference: a share of the published number, and a part that does not shrink."""

    relative: float
    floor: float
    why: str


USUAL = Tolerance(1e-4, 1e-6, "sums of 32-bit numbers, taken in another order")
TIMES = Tolerance(inf, inf, "a time, which differs from run to run")
TIES = Tolerance(2e-3, 1e-6, "a few words in 8,700 have two largest weights, equal to rounding")
TINY = Tolerance(5e-3, 0.0, "residuals down to 1e-13, where 64-bit numbers end")
FITS = Tolerance(5e-4, 1e-6, "a slope fitted to residuals of 1e-13")
CLUSTERS = Tolerance(0.01, 1e-6, "a point between two clusters can change sides")
FEW_POINTS = Tolerance(1e-3, 1e-6, "of thousands of points a few lie between two clusters")
ORDERS = Tolerance(1e-4, 1e-3, "two words of nearly equal effect change places")
RANKS = Tolerance(1e-4, 4e-3, "two heads are equal to five digits and share a rank")
LIMIT = Tolerance(1e-4, 4e-3, "a head's score, drawn anew, is the limit but for five digits")
DIGIT = Tolerance(1e-4, 1e-4, "fitted to published batches, which have five digits")
GAINS = Tolerance(1e-4, 1e-5, "a difference of shares of five published digits")
SUMS = Tolerance(1e-4, 2e-5, "small differences of sums of a hundred nats in 32 bits")
TRAINED = Tolerance(0.02, 1e-6, "updates amplify rounding; one of 150 digits is .007")
GROWN = Tolerance(0.0, 0.05, "a difference of two distances in pixels, each after such updates")
CHANGES = Tolerance(3e-3, 1e-4, "a small change of numbers of five published digits")
FALLS = Tolerance(1e-4, 1e-4, "a difference of nats of five published digits")
LITTLE = Tolerance(1e-4, 2e-5, "a small difference of means of five published digits")
GRADIENTS = Tolerance(5e-4, 1e-6, "a product of gradients, each of sums in another order")
WORD = Tolerance(1e-4, 1e-3, "one word in 1,400 or more is decided by rounding")
SLICES = Tolerance(0.02, 0.01, "a mean of few cosines near 0, after updates that amplify rounding")
SILENT = Tolerance(0.02, 1e-4, "updates amplify rounding, which alone moves logits in the end")
EQUAL = Tolerance(4e-3, 1e-6, "a head on one token: of its equal singular values any are cut")
ODDS = Tolerance(1e-4, 1e-5, "changes of log-odds by thousandths, from scores of 32 bits")
GATES = Tolerance(0.02, 0.02, "of gates from 0 to 1, after updates that amplify rounding")

TOLERANCES: dict[tuple[str, ...], dict[str, Tolerance]] = {
    ("01", "heads"): {"next_symmetric": WORD},
    ("11", "heads"): dict.fromkeys(("previous", "next", "own", "rare"), TIES),
    ("24", "speed"): {"gain": TIMES},
    ("24", "summary", "gain in the largest batches"): {"value": TIMES},
    ("24", "summary", "gain beyond one at a time"): dict.fromkeys(("value", "baseline"), TIMES),
    ("25", "heads"): {"importance": GRADIENTS},
    ("25", "information"): dict.fromkeys(("information", "shuffled"), CLUSTERS),
    ("25", "summary"): dict.fromkeys(("value", "baseline"), CLUSTERS),
    ("34", "fits"): dict.fromkeys(("r2", "mean_alone", "later", "held_out"), DIGIT),
    ("34", "rivals"): {"logarithm": DIGIT},
    ("34", "summary"): {"value": DIGIT},
    ("35", "agreement"): dict.fromkeys(("value", "null"), RANKS),
    ("31", "live"): dict.fromkeys(("queries", "aligned", "logit moved"), SILENT),
    ("31", "summary"): {"value": CHANGES},
    ("33", "live"): {"first": SILENT, "last": SLICES},
    ("36", "live"): dict.fromkeys(("R", "R_base"), TRAINED),
    ("37", "live"): dict.fromkeys(("rise", "dissimilarity"), SILENT),
    ("37", "summary"): dict.fromkeys(("value", "baseline"), CHANGES),
    ("38", "summary"): {"value": CHANGES},
    ("39", "live"): dict.fromkeys(("nats", "share"), CLUSTERS),
    ("39", "summary"): {"value": FALLS},
    ("43", "fixed"): {"error": EQUAL},
    ("46", "powers"): {"behind": TINY},
    ("46", "answers"): {"right": TRAINED},
    ("46", "trainings"): {"value": FITS},
    ("48", "summary"): {"value": GAINS},
    ("52", "correlations"): {"value": ORDERS},
    ("52", "summary"): {"value": ORDERS},
    ("54", "probes"): {"value": WORD},
    ("54", "summary"): {"value": WORD},
    ("55", "digits"): dict.fromkeys(("pixels", "accuracy"), TRAINED),
    ("55", "growth"): {"value": GROWN},
    ("55", "layers"): {"value": FEW_POINTS},
    ("55", "centres"): dict.fromkeys(("value", "over_chance"), FEW_POINTS),
    ("56", "summary"): {"value": GAINS},
    ("57", "summary"): {"value": CHANGES},
    ("58", "heads"): {"effect": SUMS},
    ("59", "heads"): {"value": ODDS},
    ("61", "heads"): dict.fromkeys(("polar", "negators", "importance"), TRAINED),
    ("61", "moved"): {"distance": TRAINED},
    ("61", "layers"): {"distance": TRAINED},
    ("61", "removed"): dict.fromkeys(("accuracy", "nats"), TRAINED),
    ("61", "retrained"): dict.fromkeys(("accuracy", "nats"), TRAINED),
    ("61", "summary"): {"value": LITTLE},
    ("47", "trainings"): dict.fromkeys(("loss", "validation", "test", "last"), TRAINED),
    ("47", "summary"): {"value": GAINS},
    ("72", "summary"): {"baseline": LITTLE},
    ("74", "summary", "heads with a score of 0.1 or more"): {"value": LIMIT},
    ("79", "summary", "gain in batches of 32"): {"value": TIMES},
    ("79", "summary", "gain one at a time"): {"value": TIMES},
    ("78", "gates"): dict.fromkeys(("opened", "shut"), GATES),
}
"""Tolerances other than the usual one, by page and table (and question), then by column.

Each was needed on one of four processors with AVX-512, or where torch and its libraries were held
to AVX2: there a value of the column or, on page 25, of the table was not as published; page 25's
summary is computed from that table. The ends of an interval, `x_low` and `x_high`, have the
tolerance of `x`.
"""
SECONDS = "seconds"


def tolerance(page: str, table: str, column: str, question: object = None) -> Tolerance:
    """The tolerance of a column, of a table of a page ("13"), in rows of this question."""
    if column == SECONDS:
        return TIMES
    known = TOLERANCES.get((page, table), {}) | TOLERANCES.get((page, table, str(question)), {})
    return known.get(column, known.get(column.removesuffix("_low").removesuffix("_high"), USUAL))


def is_compared(allowed: Tolerance) -> bool:
    """Whether values of this tolerance say anything: times do not."""
    return allowed.relative < inf


def same(now: object, then: object, allowed: Tolerance = USUAL) -> bool:
    """Whether a value measured now agrees with a published one.

    Whole numbers and texts agree when equal, unless more is allowed than usual; empty cells agree.
    """
    now, then = _plain(now), _plain(then)
    numbers = isinstance(now, float) and isinstance(then, float)
    if not numbers or inf in (abs(now), abs(then)):
        return now == then
    if now.is_integer() and then.is_integer() and allowed is USUAL:
        return now == then
    return abs(now - then) <= (allowed.relative + ROUNDED) * abs(then) + allowed.floor


def _plain(value: object) -> str | float | None:
    """A number, a text, or None for an empty cell."""
    if pd.isna(value) or value == "":
        return None
    return float(value) if isinstance(value, Real) else str(value)


def as_key(value: object) -> str:
    """The text by which a cell of a key column is compared: numbers as they are published."""
    found = _plain(value)
    if isinstance(found, float) and not isinstance(value, bool):
        return f"{found:.0f}" if found.is_integer() else f"{found:.{DIGITS}g}"
    return "" if found is None else str(value)
