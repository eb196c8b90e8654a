"""Metadata of a table of heads beside its columns, for `hb.roles` and the page."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor

from headbook.heads.measure import RatioSums
from headbook.types import Kind, UserError

KEY = "headbook"
"""Where a table's `attrs` hold it."""
ENOUGH = 4
"""Sentences from which an interval over sentences says something."""


@dataclass(frozen=True, eq=False)
class Measured:
    """The source of one table: model, text, numbers of sentences, sums by kind and measure.

    `nulls` are, by measure, the largest values over all heads of the null networks, of the first
    kind alone. `diversity` has one row per kind and layer. `notes` are full sentences on what was
    left out or restricted, and why. `sentences` counts by column group: all, translated, ablated,
    nulls.
    """

    model: str
    origin: str
    text: str
    parser: str
    sentences: Mapping[str, int]
    sums: Mapping[Kind, Mapping[str, RatioSums]]
    nulls: Mapping[str, Tensor]
    null_count: int
    importance: str
    diversity: pd.DataFrame
    notes: tuple[str, ...]

    def __deepcopy__(self, memo: dict) -> "Measured":
        """Itself: pandas copies `attrs` with every operation, and this never changes."""
        return self


def measured(heads: pd.DataFrame) -> Measured:
    """The source of a table that `hb.measure` returned; UserError for any other table."""
    if KEY not in heads.attrs:
        raise UserError("this table is not one that hb.measure returned: measure again")
    return heads.attrs[KEY]


def without_intervals(table: pd.DataFrame, sentences: int) -> pd.DataFrame:
    """The table itself, or with empty intervals where so few sentences were drawn again and again
    that an interval would be a point."""
    ends = [name for name in table if name.split("_")[-1] in ("low", "high")]
    return table if sentences >= ENOUGH else table.assign(**dict.fromkeys(ends, np.nan))
