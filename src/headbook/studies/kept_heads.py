"""Which heads a sweep keeps."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from headbook.artefacts.model import Size
from headbook.types import HeadId, Kind


def keeping(
    closed: Sequence[Sequence[HeadId]], kinds: Sequence[Kind], size: Size
) -> Bool[np.ndarray, "point kind layer head"]:
    """True where a model keeps the head."""
    kept = np.ones((len(closed), len(kinds), size.layers, size.heads), dtype=bool)
    for number, heads in enumerate(closed):
        for head in heads:
            kept[number, kinds.index(head.kind), head.layer, head.head] = False
    return kept


def some_but_not_all(
    kept: Bool[np.ndarray, "point kind layer head"], least: float = 0.0
) -> Bool[np.ndarray, "chosen kind layer head"]:
    """The points that keep some heads and not all; with `least`, no smaller a share of either."""
    share = kept.mean(axis=(1, 2, 3))
    inside = (share > 0) & (share < 1) & (share >= least) & (share <= 1 - least)
    return kept[inside]
