"""Page 26: in which order a neighbour's head, the own token's and a good model come."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from headbook.artefacts.catalogue import SEED, seeds
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters import words
from headbook.chapters.sixteen._specialisation import Score
from headbook.chapters.tables import claim_row, loaded_labels
from headbook.statistics import difference

MASKED, TRANSLATION = "mixture-fr-256-masked", "mixture-fr-256-small-batches"
"""One encoder, two objectives, one text, batches of one size."""
SEEDS = tuple(tuple(seeds(name)) for name in (f"{words.NARROW}-masked", words.NARROW))
"""The same on short sentences, narrower: names of the masked encoders and of the translation
models, by seed."""
PAIRS = ((MASKED, TRANSLATION), *zip(*SEEDS, strict=True))
"""Encoders of one shape, text, seed and size of batches: finding hidden words, and translating."""
HALF = 0.5
"""Of its last value: from where a share counts as there."""
SOONER, BEFORE, FIRST = (
    "emergence-masking-sooner",
    "emergence-before-quality",
    "emergence-own-before-neighbour",
)


def of_pairs(ways: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The claims about masked encoders, and those beside their translation models."""
    for masked, translating in PAIRS:
        yield from claims(ways, masked)
        yield from sooner(ways, masked, translating)


def claims(ways: pd.DataFrame, masked: str = MASKED) -> Iterator[dict[str, object]]:
    """When each came in a masked encoder, of its rows; the first may be of another machine."""
    own = ways[(ways["model"] == masked) & (ways["text"] == HELD_OUT)].sort_values("update")
    if own.empty:
        return
    neighbour, first = halfway(own, Score.NEIGHBOUR), halfway(own, Score.OWN)
    nats = own["nats"].to_numpy()
    learnt = (nats[0] - nats[neighbour]) / (nats[0] - nats[-1])
    yield claim_row(BEFORE, _labels(masked), *learnt)
    later = neighbour - first[[0, 2, 1]]
    yield claim_row(FIRST, _labels(masked), *later.astype(float))


def halfway(own: pd.DataFrame, scored: Score) -> np.ndarray:
    """Places of the first snapshot at which a share is HALF of its last: as measured, and the
    earliest and the latest that the intervals allow."""
    value, low, high = (own[f"{scored}{end}"].to_numpy() for end in ("", "_low", "_high"))
    reached = value >= HALF * value[-1], high >= HALF * low[-1], low >= HALF * high[-1]
    return np.array([each.argmax() for each in reached])


def sooner(
    ways: pd.DataFrame, masked: str = MASKED, translating: str = TRANSLATION
) -> Iterator[dict[str, object]]:
    """The claim about masking beside translation, of rows of both; one may be of another machine.

    Nothing where the two have no number of updates in common.
    """
    own = ways[(ways["text"] == HELD_OUT) & (ways["update"] > 0)]
    shares = {name: rows.set_index("update") for name, rows in own.groupby("model")}
    if not {masked, translating} <= shares.keys():
        return
    if both := set(shares[masked].index) & set(shares[translating].index):
        ends = (
            three(shares[name].loc[max(both)], Score.NEIGHBOUR) for name in (masked, translating)
        )
        yield claim_row(SOONER, _labels(masked), *difference(*ends))


def _labels(name: str) -> dict[str, object]:
    """Seeds of one model have its name."""
    return loaded_labels(name) | {"model": SEED.sub("", name)}


def three(row: pd.Series, name: str) -> tuple[float, float, float]:
    """A number and the ends of its interval."""
    return row[name], row[f"{name}_low"], row[f"{name}_high"]
