"""The measured heads of models trained here, as tables: scores, roles, the best per relation.

Layers and heads count from one in every table, as in the papers.
"""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.chapters.measurements import Measurement
from headbook.heads.measure import RatioSums, best_head
from headbook.heads.offset_baseline import offset_accuracies, offset_baseline
from headbook.heads.positional import REACH, Place
from headbook.heads.roles import candidates
from headbook.heads.syntactic import best_accuracies
from headbook.statistics import difference
from headbook.trees import RELATION_DIRECTIONS
from headbook.types import Kind

OFFSETS = [f"{offset:+d}" for offset in range(-REACH, REACH + 1)]
RELATION_NAMES = [f"{relation} {direction}" for relation, direction in RELATION_DIRECTIONS]
RAREST = ["rarest", "one of two rarest"]
DETAILS = {
    "confidence": [""],
    "asymmetry": [""],
    "positional": OFFSETS,
    "syntactic": RELATION_NAMES,
    "rare": RAREST,
}
"""Meaning of the last axis of each measure."""


def head_rows(measurement: Measurement) -> pd.DataFrame:
    """Every measure of every head: kind, layer, head, measure, detail, value, low, high."""
    tables = []
    for name, sums in measurement.sums.items():
        measure, _, kind = name.partition("/")
        if measure in DETAILS:
            tables.append(_tidy(sums, measure, kind or Kind.ENCODER))
    return pd.concat(tables, ignore_index=True).assign(**measurement.labels)


def _tidy(sums: RatioSums, measure: str, kind: str) -> pd.DataFrame:
    """One row per cell of [layer, head, detail]."""
    value, (low, high) = sums.ratio(), sums.interval()
    layers, heads = value.shape[:2]
    index = pd.MultiIndex.from_product(
        [range(1, layers + 1), range(1, heads + 1), DETAILS[measure]],
        names=["layer", "head", "detail"],
    )
    columns = {"value": value, "low": low, "high": high}
    frame = pd.DataFrame({name: _flat(each) for name, each in columns.items()}, index)
    return frame.reset_index().assign(kind=str(kind), measure=measure)


def _flat(values: Tensor) -> list[float] | list[int]:
    return values.reshape(-1).tolist()


def head_scores(measurement: Measurement) -> pd.DataFrame:
    """One row per head: confidence, shares at fixed offsets, best relation and rare share, with
    intervals.

    `own`, `neighbour` and `other` are the largest share at an offset of that `Place`;
    `neighbour_offset` and `other_offset` say at which. `margin` is accuracy minus the offset
    baseline, both over all sentences, at its largest over the relation-directions. Columns of a
    kind that lacks the measure are empty.
    """
    rows = head_rows(measurement)
    keys = ["kind", "layer", "head"]
    scores = _picked(rows, "confidence", keys).drop(columns="detail")
    for place in Place:
        details = [f"{offset:+d}" for offset in place.offsets()]
        near = rows[rows["detail"].isin(details)].replace({"positional": str(place)})
        top = _picked(near, str(place), keys).rename(columns={"detail": f"{place}_offset"})
        scores = scores.merge(top, how="left")
    scores = scores.drop(columns=f"{Place.OWN}_offset")
    rows.loc[rows["measure"] == "syntactic", "margin"] = rows["value"] - rows["detail"].map(
        dict(zip(RELATION_NAMES, _whole_baseline(measurement), strict=True))
    )
    syntactic = rows[rows["measure"] == "syntactic"].dropna(subset="margin")
    top = syntactic.loc[syntactic.groupby(keys)["margin"].idxmax()]
    top = top.rename(columns={"detail": "relation", "value": "accuracy", "low": "accuracy_low",
                              "high": "accuracy_high"})  # fmt: skip
    scores = scores.merge(
        top[[*keys, "relation", "accuracy", "accuracy_low", "accuracy_high", "margin"]], how="left"
    )
    rare = _picked(rows[rows["detail"] == RAREST[1]], "rare", keys).drop(columns="detail")
    return scores.merge(rare, how="left").assign(**measurement.labels)


def _whole_baseline(measurement: Measurement) -> list[float]:
    """The most frequent offset's share of each relation-direction over all sentences."""
    return measurement.sums["offsets"].ratio().nan_to_num(-1).amax(0).tolist()


def _picked(rows: pd.DataFrame, measure: str, keys: list[str]) -> pd.DataFrame:
    """Each head's largest value of one measure, its columns named after the measure."""
    of_measure = rows[rows["measure"] == measure].dropna(subset="value")
    top = of_measure.loc[of_measure.groupby(keys)["value"].idxmax()]
    names = {"value": measure, "low": f"{measure}_low", "high": f"{measure}_high"}
    return top[[*keys, "detail", *names]].rename(columns=names)


def best_rows(measurement: Measurement) -> pd.DataFrame:
    """The best head of each relation-direction beside its baselines.

    The head is chosen on one half of the sentences (`chosen` is its accuracy there) and scored on
    the other (`value`); the offset baseline likewise; `random` is a head of random weights.
    """
    best, baseline = (
        best_head(measurement.sums["syntactic"]),
        offset_baseline(measurement.sums["offsets"]),
    )
    columns = {
        "layer": best.layer + 1, "head": best.head + 1, "chosen": best.chosen,
        "value": best.score, "low": best.low, "high": best.high,
        "baseline": baseline.accuracy, "baseline_low": baseline.low,
        "baseline_high": baseline.high, "baseline_offset": baseline.offset,
        "random": measurement.sums["random syntactic"].ratio(half=1)[0, 0],
        "arcs": measurement.sums["syntactic"].denominator[1, 0, 0, 0],
    }  # fmt: skip
    frame = pd.DataFrame({name: _flat(values) for name, values in columns.items()})
    frame["relation"] = [relation for relation, _ in RELATION_DIRECTIONS]
    frame["direction"] = [str(direction) for _, direction in RELATION_DIRECTIONS]
    return frame.assign(**measurement.labels)


def verbs_lead(best: pd.DataFrame) -> tuple[float, float, float]:
    """Lead over the offset of the verb's relations above that of adjectives and adverbs.

    `best` has one row per relation-direction, in their order, with value, low, high and baseline; a
    head below its baseline counts as at it. The interval takes the accuracies as independent.
    """
    over = (best[["value", "low", "high"]].sub(best["baseline"], axis=0)).clip(lower=0).to_numpy()
    verbs = np.array([relation in ("nsubj", "dobj") for relation, _ in RELATION_DIRECTIONS])
    return difference(_mean_of(over[verbs]), _mean_of(over[~verbs]))


def _mean_of(estimates: Float[np.ndarray, "estimate 3"]) -> tuple[float, float, float]:
    """Mean of independent estimates with their intervals, each value, low, high."""
    value, low, high = estimates.T
    below, above = (np.linalg.norm(end - value) / len(value) for end in (low, high))
    mean = float(value.mean())
    return mean, mean - float(below), mean + float(above)


def best_margins(measurement: Measurement) -> Tensor:
    """Best head's accuracy minus the baseline, [1 + replicate, 8], both on the scoring half.

    Row 0 is the plain difference; the others are its bootstrap over sentences.
    """
    sums = measurement.sums
    return best_accuracies(sums["syntactic"]) - offset_accuracies(sums["offsets"])


def role_rows(measurement: Measurement) -> pd.DataFrame:
    """Every role an encoder head could have: score, threshold, and whether it is held.

    Scores are over all sentences, as in the paper; the baseline of the syntactic threshold too.
    """
    sums = measurement.sums
    reach = torch.arange(-REACH, REACH + 1)
    found = candidates(
        sums["positional/encoder"].ratio(),
        reach,
        sums["syntactic"].ratio(),
        torch.tensor(_whole_baseline(measurement)),
        sums["rare"].ratio(),
    )
    rows = [
        {"layer": each.layer + 1, "head": each.head + 1, "role": str(each.role),
         "detail": each.detail, "score": each.score, "threshold": each.threshold,
         "held": each.held}
        for each in found
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**measurement.labels)
