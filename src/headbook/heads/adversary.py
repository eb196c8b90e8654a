"""Attention weights as far as possible from a model's own that leave its output where it was."""

import math

import numpy as np
from jaxtyping import Float

Weights = Float[np.ndarray, "*batch word"]


def jensen_shannon(first: Weights, second: Weights) -> Float[np.ndarray, "*batch"] | float:
    """½ KL(p ‖ m) + ½ KL(q ‖ m) with m = (p + q) / 2, in nats: 0 to ln 2."""
    middle = (first + second) / 2
    return (_kl(first, middle) + _kl(second, middle)) / 2


def _kl(first: Weights, second: Weights) -> Float[np.ndarray, "*batch"] | float:
    ratio = np.divide(first, second, out=np.ones_like(second), where=first > 0)
    return (first * np.log(ratio)).sum(-1)


def farthest(
    weights: Float[np.ndarray, " word"], scores: Float[np.ndarray, " word"], tolerance: float
) -> tuple[float, Float[np.ndarray, " word"]]:
    """The largest JS(α̃, α) with |σ(Σ α̃ s) − σ(Σ α s)| ≤ tolerance, and that α̃.

    Jain and Wallace 2019, section 4.2.2, search for it by gradient. Here it is exact: the
    constraint is an interval of the logit Σ α̃ s, so what is allowed is a polytope, and JS, convex
    in α̃, is largest at one of its corners. A corner has weight on one word whose score lies in the
    interval, or on two words whose scores lie on both sides of one of its ends.
    """
    own = float(weights @ scores)
    low, high = (_logit(_sigmoid(own) + each) for each in (-tolerance, tolerance))
    one = np.eye(len(weights))[(scores >= low) & (scores <= high)]
    corners = [weights[None], one, *(_pairs(scores, end) for end in (low, high))]
    allowed = np.concatenate(corners)
    found = np.asarray(jensen_shannon(allowed, np.broadcast_to(weights, allowed.shape)))
    best = int(found.argmax())
    return float(found[best]), allowed[best]


def _pairs(scores: np.ndarray, end: float) -> Float[np.ndarray, "pair word"]:
    """Weights on two words each, one below and one above, whose mean score is `end`."""
    below, above = (np.flatnonzero(side) for side in (scores < end, scores > end))
    lower, upper = (each.ravel() for each in np.meshgrid(below, above, indexing="ij"))
    pairs = np.zeros((len(lower), len(scores)))
    if len(lower) and math.isfinite(end):
        rows = np.arange(len(lower))
        share = (end - scores[lower]) / (scores[upper] - scores[lower])
        pairs[rows, upper], pairs[rows, lower] = share, 1 - share
        return pairs
    return pairs[:0]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def _logit(share: float) -> float:
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return math.log(share / (1 - share))
