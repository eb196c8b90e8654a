"""Diversity at the end of a training, from one model's looks."""

import pandas as pd

from headbook.artefacts.language import LanguageModel, Setting
from headbook.chapters.diversity._watched import (
    column,
    look_rows,
)
from headbook.chapters.tables import stacked
from headbook.heads.four_metrics import ARTICLE, FREE

LAST = 0.2
"""Share of the looks that stands for the end of a training."""
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
