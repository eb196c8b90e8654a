"""BLEU as more and more heads are pruned (Michel et al. 2019, section 4): scored and compared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from headbook.artefacts.masked import MaskedRun, masked
from headbook.artefacts.model import Heads, TrainedModel, primary
from headbook.pruning.ranking import counts, first_of
from headbook.runs.store import Store
from headbook.training.paired import paired, resampled
from headbook.types import Kind

EVERY = "all"
"""The scope of an order that heads of the three kinds share."""
SIGNIFICANT = 0.01
"""The significance level of Michel et al."""


@dataclass(frozen=True)
class Curve:
    """One order of the heads of one scope (all of them, or one kind's), and a mask a level."""

    scope: str
    order: str
    number: int  # which of several random orders; 0 where there is one
    heads: int
    levels: tuple[float, ...]
    masks: tuple[Heads, ...]

    @property
    def shares(self) -> list[float]:
        """The share of the scope's heads that is really pruned: levels fall between heads."""
        return [len(mask) / self.heads for mask in self.masks]


def curve(
    order: Heads,
    levels: Sequence[float],
    name: str,
    scope: str = EVERY,
    number: int = 0,
    heads: int | None = None,
) -> Curve:
    """The curve of an order; `heads` is the scope's number, where the order ends before it."""
    heads = len(order) if heads is None else heads
    levels = tuple(sorted(levels))
    masks = (first_of(order, count) for count in counts(heads, levels))
    return Curve(scope, name, number, heads, levels, tuple(tuple(sorted(each)) for each in masks))


@dataclass(frozen=True)
class Scored:
    """BLEU in percent, sufficient statistics and loss of every mask; the full model is ()."""

    index: Mapping[Heads, int]
    bleu: Float[np.ndarray, " mask"]
    statistics: Int[np.ndarray, "mask sentence 10"]
    loss: Float[np.ndarray, " mask"]

    def of(self, curve: Curve) -> list[int]:
        """Masks of the curve."""
        return [self.index[mask] for mask in curve.masks]

    @property
    def full(self) -> int:
        return self.index[()]

    @cached_property
    def replicates(self) -> Float[np.ndarray, "replicate mask"]:
        """BLEU of every mask on the same resampled sentences; row 0 is the plain BLEU."""
        drawn = np.column_stack([resampled(each) for each in self.statistics])
        return np.vstack([self.bleu, drawn])


def score(
    trained: TrainedModel,
    curves: Iterable[Curve],
    sentences: int,
    store: Store,
    update: int | None = None,
) -> Scored:
    """Every mask of the curves, and the full model, once: on the primary test set, greedily."""
    masks = tuple(dict.fromkeys([(), *(mask for each in curves for mask in each.masks)]))
    run = MaskedRun(primary(trained), sentences, masks, update=update)
    found = masked(trained, run, store)
    index = {mask: number for number, mask in enumerate(masks)}
    return Scored(index, found.bleu, found.statistics, found.loss)


Replicates = Float[np.ndarray, " replicate"]
"""A number, first as it is and then on each of the resampled test sets."""


def kept(curve: Curve, scored: Scored) -> Float[np.ndarray, "replicate level"]:
    """BLEU kept at every level: BLEU over the full model's; NaN where that is nothing."""
    whole = scored.replicates[:, [scored.full]]
    pruned = scored.replicates[:, scored.of(curve)]
    return np.divide(pruned, whole, out=np.full_like(pruned, np.nan), where=whole > 0)


def kept_at(curve: Curve, scored: Scored, level: float) -> Replicates:
    """BLEU kept at one level; on the straight line between two where it is none of the curve's."""
    levels = np.array(curve.levels)
    right = int(np.searchsorted(levels, level).clip(1, len(levels) - 1))
    weight = (level - levels[right - 1]) / (levels[right] - levels[right - 1])
    both = kept(curve, scored)
    return (1 - weight) * both[:, right - 1] + weight * both[:, right]


def mean_kept(curve: Curve, scored: Scored) -> Replicates:
    """BLEU kept, mean over the levels at which heads go: the area under the curve."""
    return kept(curve, scored)[:, np.array(curve.levels) > 0].mean(axis=1)


def prunable(curve: Curve, scored: Scored, least: float) -> Replicates:
    """The share of heads at which BLEU kept first falls below `least`, on straight lines.

    The curve's largest share where it never does; NaN where the full model scores nothing.
    """
    return np.array([_crossing(curve.shares, row, least) for row in kept(curve, scored).tolist()])


def _crossing(shares: Sequence[float], values: Sequence[float], least: float) -> float:
    if any(value != value for value in values):
        return float("nan")
    points = list(zip(shares, values, strict=True))
    for (left, above), (right, below) in pairwise(points):
        if below < least:
            return left + (right - left) * (above - least) / (above - below)
    return shares[-1]


def chosen(curves: Iterable[Curve], order: str, scope: str = EVERY) -> list[Curve]:
    """The curves of one order and scope: several where it is random."""
    return [each for each in curves if (each.order, each.scope) == (order, scope)]


def averaged(
    measure: Callable[[Curve], Replicates], curves: Iterable[Curve], order: str, scope: str = EVERY
) -> Replicates:
    """A measure of an order's curve; the mean over its draws where the order is random."""
    return np.mean([measure(each) for each in chosen(curves, order, scope)], axis=0)


def curve_rows(curves: Iterable[Curve], scored: Scored) -> pd.DataFrame:
    """One row per level of every curve: BLEU, its loss against the full model, heads that are gone.

    `low`, `high` and `p` are of the difference in BLEU, by paired bootstrap over sentences.
    """
    compared = _compared(scored)
    rows = [
        {
            "scope": each.scope,
            "order": str(each.order),
            "number": each.number,
            "level": level,
            "share": share,
            "pruned": len(mask),
            **compared[scored.index[mask]],
            **{f"{kind}_pruned": sum(head.kind == kind for head in mask) for kind in Kind},
        }
        for each in curves
        for level, share, mask in zip(each.levels, each.shares, each.masks, strict=True)
    ]
    return pd.DataFrame(rows)


def _compared(scored: Scored) -> list[dict[str, float]]:
    """Every mask against the full model."""
    whole = float(scored.bleu[scored.full])
    rows = []
    for at, bleu in enumerate(map(float, scored.bleu)):
        test = paired(scored.statistics[at], scored.statistics[scored.full])
        rows.append(
            {
                "bleu": bleu,
                "kept": bleu / whole if whole else float("nan"),
                "difference": test.difference,
                "low": test.low,
                "high": test.high,
                "p": test.p,
                "loss_nats": float(scored.loss[at]),
            }
        )
    return rows


def harmless(levels: pd.DataFrame) -> float:
    """The largest share up to which no level of one curve is significantly below the full model."""
    ordered = levels.sort_values("level")
    worse = (ordered["difference"] < 0) & (ordered["p"] < SIGNIFICANT)
    return float(ordered.loc[~worse.cummax(), "share"].max())
