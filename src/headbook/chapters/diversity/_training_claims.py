"""The X-raying article's claims on diversity through a training, from one model's looks."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from headbook.artefacts.language import LanguageModel, Setting
from headbook.chapters.chapter import Tables
from headbook.chapters.diversity._seeds import over_settings
from headbook.chapters.diversity._watched import (
    as_measured,
    column,
    has_one_pair,
    labels,
    look_rows,
    loss_rows,
    sight_rows,
    variance,
)
from headbook.chapters.tables import claim_row, stacked
from headbook.heads.four_metrics import ARTICLE, ATTENTION, DISSIMILARITY, FREE, ORTHOGONALITY, RAW

LAST = 0.2
"""Share of the looks that stands for the end of a training."""
STABLE = 10
"""The batch at which the article sees its numbers come to rest; it calls batches epochs."""
DISTINCT = 3
"""Layers whose heads the article finds distinct."""
VARIANCE_RISES = "xray-variance-rises"
TOGETHER = tuple(
    f"xray-{each}-published" for each in ("dissimilarity-rises", "attention-still-in-first-layer")
)
"""Claims about all settings together: each was trained once, and six layers are few."""
KEYS = {Setting.PUBLISHED: "published", Setting.DESCRIBED: "described"}

ByLayer = pd.Series


def ends(looks: pd.DataFrame, name: str) -> tuple[ByLayer, ByLayer]:
    """A column before the first update and its mean over the last looks, by layer."""
    wide = looks.pivot(index="update", columns="layer", values=name)
    return wide.iloc[0], wide.iloc[-last_looks(len(wide)) :].mean()


def last_looks(count: int) -> int:
    """Number of measurements that count as the end: one at least."""
    return max(1, round(LAST * count))


def at_the_end(model: LanguageModel) -> pd.DataFrame:
    """One row per layer and metric: scale-free, over the last looks; none where nobody looked."""
    if not model.looks:
        return pd.DataFrame()
    looks = look_rows(model)
    return stacked(
        ends(looks, column(metric, FREE))[1].rename("value").reset_index().assign(metric=metric)
        for metric in ARTICLE
    )


def claims_of(models: Sequence[LanguageModel], looks: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Rows of all claims, from the looks at each model."""
    pairs = zip(models, looks, strict=True)
    found = pd.DataFrame([row for model, rows in pairs for row in claims(model, rows)])
    return over_settings(found, TOGETHER)


def claims(model: LanguageModel, looks: pd.DataFrame) -> Iterator[dict[str, object]]:
    """One row per claim of the model's setting that applies to it."""
    key, named = KEYS[model.run.setting], labels(model)
    for claim, value in _values(looks).items():
        if claim == VARIANCE_RISES and has_one_pair(model):
            continue
        yield claim_row(f"{claim}-{key}", named, value)


def _values(looks: pd.DataFrame) -> dict[str, float]:
    raw, free = column(ORTHOGONALITY, RAW), column(ORTHOGONALITY, FREE)
    unlike = column(DISSIMILARITY, RAW)
    logarithm = looks.assign(**{raw: np.log(looks[raw])})
    last_unlike = ends(looks, unlike)[1]
    return {
        "xray-orthogonality-falls": _share_that_rises(looks, raw),
        "xray-dissimilarity-rises": _share_that_rises(looks, unlike),
        VARIANCE_RISES: _share_that_rises(looks, variance(DISSIMILARITY, RAW)),
        "xray-stable-after-ten": _done_at(logarithm, raw, STABLE),
        "xray-first-layer-dwarfs": _first_against_rest(ends(logarithm, raw)[1]),
        "xray-first-layer-scale-free": _first_against_rest(ends(looks, free)[1]),
        "xray-first-three-distinct": float(
            last_unlike.iloc[:DISTINCT].mean() - last_unlike.iloc[DISTINCT:].mean()
        ),
        "xray-attention-still-in-first-layer": _attention(looks),
    }


def _share_that_rises(looks: pd.DataFrame, name: str) -> float:
    """Of the layers; NaN where the column has no number."""
    first, last = ends(looks, name)
    return float((last > first).mean()) if last.notna().all() else float("nan")


def _done_at(looks: pd.DataFrame, name: str, update: int) -> float:
    """Share of the change to the end that is done at an update, mean over the layers.

    NaN where nobody looked at that update.
    """
    first, last = ends(looks, name)
    then = looks[looks["update"] == update].set_index("layer")[name]
    return float(((then - first) / (last - first)).mean())


def _first_against_rest(by_layer: ByLayer) -> float:
    return float(by_layer.iloc[0] - by_layer.iloc[1:].mean())


def _attention(looks: pd.DataFrame) -> float:
    """Rise of the later layers minus that of the first one, in logarithms."""
    first, last = ends(looks, column(ATTENTION, RAW))
    change = np.log(last / first)
    return float(change.iloc[1:].mean() - abs(change.iloc[0]))


def setting_tables(models: Sequence[LanguageModel]) -> Tables:
    """Tables of both settings' pages: metrics, losses, positions that outputs depend on.

    Of the model as published, raw numbers are those that its notebook would have taken; `held_out`
    has the claims as they would be without padding and dropout.
    """
    looks = [as_measured(model) for model in models]
    published = [model for model in models if model.run.setting is Setting.PUBLISHED]
    held_out = [row for model in published for row in claims(model, look_rows(model))]
    tables = {
        "looks": stacked(looks),
        "losses": stacked(map(loss_rows, models)),
        "sight": stacked(map(sight_rows, models)),
        "claims": claims_of(models, looks),
    }
    return tables | ({"held_out": pd.DataFrame(held_out)} if held_out else {})
