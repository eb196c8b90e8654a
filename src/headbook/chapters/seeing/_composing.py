"""Composition scores beside measured interactions: part of page 57."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.looking.composition import Way, over_redrawn, weights_of
from headbook.models.loaded import Loaded
from headbook.statistics import drawn_within, interval, partial_spearman, spearman
from headbook.types import HeadId, UserError

REPLICATES = 1000

Scores = Float[np.ndarray, "way=3 head other"]
"""Over redrawn weights, of the first head with the second of a higher layer; else NaN."""


def scores_of(model: Loaded, heads: Sequence[HeadId]) -> Scores | None:
    """Of an encoder's heads; None of a model whose weights are out of reach."""
    try:
        found = over_redrawn(weights_of(model)).numpy()
    except UserError:
        return None
    flat = found.reshape(len(found), found.shape[1] * found.shape[2], -1)
    return flat if flat.shape[1] == len(heads) else None


def by_layers(scores: Scores, heads: Sequence[HeadId]) -> pd.DataFrame:
    """One row per way and pair of layers: mean and largest score over its pairs of heads."""
    layers = np.array([head.layer for head in heads])
    return pd.DataFrame([
        {"by": str(way), "layer": lower + 1, "other_layer": upper + 1, "value": own.mean(),
         "highest": own.max()}
        for way, each in zip(Way, scores, strict=True)
        for lower in np.unique(layers) for upper in np.unique(layers) if lower < upper
        for own in [each[np.ix_(layers == lower, layers == upper)]]
    ])  # fmt: skip


def claims(scores: Scores, pairs: pd.DataFrame, heads: Sequence[HeadId]) -> Iterator[dict]:
    """Scores beyond redrawn weights, and their rank correlation with the size of interactions.

    Heads are drawn anew within their layers; `pairs` are those of page 57, with `composition`.
    """
    layers = [head.layer for head in heads]
    drawn = drawn_within(layers, REPLICATES)
    mean = scores.mean(0)
    yield _row("composition-beyond-redrawn",
               [np.nanmean(mean[np.ix_(own, own)]) - 1 for own in drawn])  # fmt: skip
    across = pairs.query("layer != other_layer")
    place = {(head.layer + 1, head.head + 1): at for at, head in enumerate(heads)}
    first, second = (
        np.array([place[pair] for pair in across[columns].itertuples(index=False, name=None)])
        for columns in (["layer", "head"], ["other_layer", "other_head"])
    )
    sides = np.vstack([across["composition"], across["interaction"].abs()])
    others = across[["layer", "other_layer", "alone"]].to_numpy(float).T
    found: list[tuple[float, float]] = []
    for own in drawn:
        times = np.bincount(own, minlength=len(heads))
        rows = np.repeat(np.arange(len(across)), times[first] * times[second])
        chosen = sides[:, rows]
        found.append((spearman(chosen)[0, 1], partial_spearman(*chosen, others[:, rows])))
    plain, partial = zip(*found, strict=True)
    yield _row("composition-with-interaction", plain)
    yield _row("composition-apart-from-effects", partial)


def _row(claim: str, replicates: Sequence[float]) -> dict[str, object]:
    value, low, high = interval(np.array(replicates))
    return {"claim": claim, "value": value, "low": low, "high": high}
