"""BLEU of a translator as its heads go in one order after another, untrained (pages 22 and 23).

Michel et al. (2019, sections 4 and 6) prune the least important heads first. A hundred sentences of
a released model under ninety sets of heads took five to twenty minutes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from headbook.experiments import heads_out
from headbook.training.paired import corpus_bleu, paired, resampled

SIGNIFICANT = 0.01
"""The paper's level."""
Orders = Mapping[tuple[str, str, int], Sequence[str]]
"""Heads of a scope (all, or those of one kind) in an order, by scope, order and its number."""
Point = tuple[str, str, int, float, Sequence[str]]
"""Scope, order, number, share of the scope's heads that goes, and these heads."""


def along(orders: Orders, levels: Sequence[float]) -> list[Point]:
    """The heads that go at every level of every order; levels fall between heads."""
    return [
        (*key, level, heads[: round(level * len(heads))])
        for key, heads in orders.items()
        for level in levels
    ]


def curves(
    name: str, orders: Orders, levels: Sequence[float], sentences: int
) -> tuple[pd.DataFrame, Float[np.ndarray, "replicate point"]]:
    """The model's `rows` along these orders, and BLEU `kept` in them [1 + resample, row]."""
    points = along(orders, levels)
    silent = [[], *(gone for *_, gone in points)]
    found = heads_out.silenced(name, sentences, silent)["statistics"]
    return rows(points, orders, found), kept(found)


def rows(
    points: Sequence[Point], orders: Orders, statistics: Int[np.ndarray, "mask sentence 10"]
) -> pd.DataFrame:
    """One row per point, of statistics of the whole model and then of each. Interval and p of the
    change are over resampled sentences."""
    whole, *others = statistics
    first, found = corpus_bleu(whole), []
    for (*key, level, gone), each in zip(points, others, strict=True):
        test, bleu = paired(each, whole), corpus_bleu(each)
        row = dict(zip(("scope", "order", "number"), key, strict=True)) | {"level": level}
        row |= {"share": len(gone) / len(orders[*key]), "pruned": len(gone)}
        for kind in ("encoder", "decoder", "cross"):
            start = "L" if kind == "encoder" else kind
            row[f"{kind}_pruned"] = sum(head.startswith(start) for head in gone)
        row |= {"bleu": bleu, "kept": bleu / first if first else np.nan}
        row |= {"change": test.difference, "change_low": test.low, "change_high": test.high}
        found.append(row | {"p": test.p})
    return pd.DataFrame(found)


def kept(
    statistics: Int[np.ndarray, "mask sentence 10"],
) -> Float[np.ndarray, "replicate point"]:
    """Share of the whole model's BLEU that each other set of heads keeps: on all sentences, then on
    each resample of them; NaN where the whole model has none."""
    bleu = np.stack([[corpus_bleu(each), *resampled(each)] for each in statistics], 1)
    whole = bleu[:, :1]
    return np.divide(bleu[:, 1:], whole, out=np.full_like(bleu[:, 1:], np.nan), where=whole > 0)


def mean(
    rows: pd.DataFrame, kept: np.ndarray, order: str, scope: str = "all", level: float | None = None
) -> Float[np.ndarray, "replicate 1"]:
    """BLEU kept in an order: the mean over the levels at which heads go, or at one; and over its
    draws. `rows` and `kept` are those of `curves`."""
    own = (rows["order"] == order) & (rows["scope"] == scope)
    at = rows["level"] > 0 if level is None else rows["level"] == level
    return kept[:, own & at].mean(1, keepdims=True)


def harmless(rows: pd.DataFrame) -> float:
    """The largest share up to which no level of an order is significantly below the whole model;
    the mean over several draws."""
    worse = (rows["change"] < 0) & (rows["p"] < SIGNIFICANT)
    shares = []
    for _, own in rows.assign(worse=worse).sort_values("level").groupby("number"):
        shares.append(own.loc[~own["worse"].cummax(), "share"].max())
    return float(np.mean(shares))
