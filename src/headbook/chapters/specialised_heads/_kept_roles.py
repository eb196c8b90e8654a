"""Roles of encoder heads that a sweep retains, before and after (Voita et al. 2019, Figure 8)."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.model import Size
from headbook.chapters.measurements import Measurement
from headbook.chapters.specialised_heads._head_tables import head_scores
from headbook.heads.positional import Place
from headbook.heads.roles import Thresholds

NEARNESS = "nearness"
SCORES = (*map(str, Place), "margin", "rare", "confidence", NEARNESS)
"""Quantities compared between retained and closed heads.

Nearness is the largest of the scores that make a role, each over its threshold: the own token and
offsets farther than the neighbour are none.
"""
THRESHOLDS = Thresholds()
NO_ROLE = "none"
Grid = Float[np.ndarray, " head"]


def encoder_scores(measurement: Measurement, size: Size) -> pd.DataFrame:
    """One row per encoder head, layer by layer, and a column per score; NaN where it has none."""
    grid = pd.MultiIndex.from_product(
        [range(1, size.layers + 1), range(1, size.heads + 1)], names=["layer", "head"]
    )
    found = head_scores(measurement).query("kind == 'encoder'").set_index(["layer", "head"])
    scores = found[list(SCORES[:-1])].reindex(grid).astype(float)
    nearness = pd.DataFrame(
        {
            "neighbour": scores[Place.NEIGHBOUR] / THRESHOLDS.positional,
            "margin": scores["margin"] / THRESHOLDS.syntactic_margin,
            "rare": scores["rare"] / THRESHOLDS.rare,
        }
    )
    return scores.assign(**{NEARNESS: nearness.max(axis=1)})
