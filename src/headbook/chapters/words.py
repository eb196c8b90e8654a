"""Numbers as the prose has them: formatted once, here."""

import math
import re
from collections.abc import Iterable
from typing import SupportsInt

OURS = "mixture-fr-256"
"""The translation model trained here whose weights come with the book."""
NARROW = "tatoeba-de-128-more-updates"
"""A third of its size, for short sentences; its weights come with the book, too."""
SMALL = "small models"
"""The young models trained here, averaged."""
TITLES = {
    "firefox-en-pt": "Firefox en→pt",
    "firefox-pt-en": "Firefox pt→en",
    "minilm": "MiniLM",
    OURS: "Our en→fr model",
    "mixture-fr-256-small-batches": "Our en→fr model, small batches",
    "mixture-fr-256-masked": "Our masked encoder",
    "multi30k-de-64": "Our en→de model, width 64",
    "multi30k-de-128-short": "Our en→de model, width 128",
    "multi30k-de-256-short": "Our en→de model, width 256",
    NARROW: "Our en→de model",
}
"""Models as figures and tables name them."""
PREFIXES = {"firefox-en-pt": "en", "firefox-pt-en": "pt", OURS: "ours", SMALL: "trained"}


def percent(share: float | int) -> str:
    """0.644 as `64 %`, never broken between lines."""
    return "none" if math.isnan(share) else f"{_whole(100 * share)}\N{NO-BREAK SPACE}%"


def percents(shares: Iterable[float]) -> str:
    """Least and most of several, of seeds or trainings: 0.48 and 0.497 as `48 to 50 %`."""
    low, high = min(shares), max(shares)
    one = _whole(100 * low) == _whole(100 * high)
    return percent(high) if one else f"{_whole(100 * low)} to {percent(high)}"


def points(difference: float | int) -> str:
    """A difference of shares, 0.293 as `29 points`; with its sign where it is negative."""
    whole = _whole(100 * difference)
    return f"{whole} {'point' if abs(int(whole)) == 1 else 'points'}".replace("-", "−")


def interval(low: float, high: float | int) -> str:
    """A 95 % interval of a share, in per cent: `[62, 66]`."""
    return f"[{_whole(100 * low)}, {_whole(100 * high)}]".replace("-", "−")


def estimate(value: float, low: float, high: float | int) -> str:
    """`64 % [62, 66]`."""
    return f"{percent(value)} {interval(low, high)}"


def points_estimate(value: float, low: float, high: float | int) -> str:
    """A difference of shares with its interval: `15 points [13, 18]`."""
    return f"{points(value)} {interval(low, high)}"


def lead(value: float, low: float, high: float | int) -> str:
    """A difference of shares in points, with its sign and interval: `+19 [8, 29]`."""
    return f"{signed(100 * value, 0)} {interval(low, high)}"


def number(value: float, low: float, high: float | int, digits: int = 2) -> str:
    """A number that is no share, with its interval: `2.01 [1.96, 2.08]`."""
    # Adding zero takes the sign from a zero that has one.
    rounded = (round(float(each), digits) + 0.0 for each in (value, low, high))
    shown, *ends = (f"{each:.{digits}f}".replace("-", "−") for each in rounded)
    return f"{shown} [{', '.join(ends)}]"


def head(layer: SupportsInt, number: SupportsInt) -> str:
    """`L6H5`: layer and head counted from one."""
    return f"L{int(layer)}H{int(number)}"


def count(number: SupportsInt) -> str:
    """3945 as `3,945`."""
    return f"{int(number):,}"


def span(counts: Iterable[int]) -> str:
    """Whole numbers by their ends: `17`, or `15 to 17`."""
    low, high = min(counts), max(counts)
    return str(int(low)) if low == high else f"{int(low)} to {int(high)}"


def _whole(number: float | int) -> str:
    rounded = round(number)
    return str(rounded or 0)  # never -0


def signed(difference: float, digits: int = 2) -> str:
    """−0.53 as `−0.53`, 0.24 as `+0.24`; without a sign where it rounds to zero, `none` for NaN."""
    if math.isnan(difference):
        return "none"
    rounded = round(float(difference), digits)
    text = f"{abs(rounded):.{digits}f}"
    return text if not rounded else f"{'+' if rounded > 0 else '−'}{text}"


def between(low: float, high: float, digits: int = 2) -> str:
    """An interval of a difference: `[−0.53, +0.24]`."""
    return f"[{signed(low, digits)}, {signed(high, digits)}]"


def difference(value: float, low: float, high: float, digits: int = 2) -> str:
    """A difference or correlation with its interval: `−0.53 [−0.60, +0.01]`."""
    return f"{signed(value, digits)} {between(low, high, digits)}"


def tenths(share: float) -> str:
    """−0.0147 as `−1.5 %`."""
    return f"{signed(100 * share, 1)} %"


def model(name: str) -> str:
    """A model trained here, `multi30k-de w128 s0` as `multi30k-de (width 128, seed 0)`.

    One that has a title, by that.
    """
    if name in TITLES:
        return TITLES[name]
    named = re.sub(r" w(\d+) s(\d+)", r" (width \1, seed \2)", name)
    return re.sub(r" s(\d+)$", r" (seed \1)", named)


def prefix(model: str) -> str:
    """What the names of facts about a model begin with, by its name or its title: `en`, `ours`."""
    titled = {TITLES[name]: short for name, short in PREFIXES.items() if name in TITLES}
    return (PREFIXES | titled).get(model) or key(model)


def key(*names: str) -> str:
    """`firefox-en-pt`, `part of speech` as `firefox_en_pt_part_of_speech`: the name of a fact."""
    return "_".join(re.sub(r"[^a-z]+", "_", name.lower()).strip("_") for name in names)
