"""Numbers as the prose has them: formatted once, here."""

import math


def percent(share: float) -> str:
    """0.644 as `64 %`."""
    return "none" if math.isnan(share) else f"{_whole(100 * share)} %"


def points(difference: float) -> str:
    """A difference of shares, 0.293 as `29 points`; with its sign where it is negative."""
    return f"{_whole(100 * difference)} points".replace("-", "−")


def interval(low: float, high: float) -> str:
    """A 95 % interval of a share, in per cent: `[62, 66]`."""
    return f"[{_whole(100 * low)}, {_whole(100 * high)}]".replace("-", "−")


def estimate(value: float, low: float, high: float) -> str:
    """`64 % [62, 66]`."""
    return f"{percent(value)} {interval(low, high)}"


def head(layer: int, number: int) -> str:
    """`L6H5`: layer and head counted from one."""
    return f"L{layer}H{number}"


def count(number: float) -> str:
    """3945 as `3,945`."""
    return f"{int(number):,}"


def _whole(number: float) -> str:
    rounded = round(number)
    return str(rounded or 0)  # never -0
