"""The measured heads of models trained here, as tables: scores, roles, the best per relation.

Layers and heads count from one in every table, as in the papers.
"""

import pandas as pd
import torch
from torch import Tensor

from headbook.chapters.measurements import Measurement
from headbook.heads.measure import RatioSums
from headbook.heads.offset_baseline import offset_accuracies
from headbook.heads.positional import REACH, Place
from headbook.heads.roles import candidates
from headbook.heads.syntactic import best_accuracies
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
