"""The table of a benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from headbook.bench.rounds import Spread


@dataclass(frozen=True)
class Row:
    """One measured quantity: the median over the rounds and the extremes."""

    quantity: str
    value: Spread
    unit: str
    width: int


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """One row per quantity and width."""
    return pd.DataFrame(
        {
            "quantity": [row.quantity for row in rows],
            "width": [row.width for row in rows],
            "median": [row.value.median for row in rows],
            "lowest": [row.value.lowest for row in rows],
            "highest": [row.value.highest for row in rows],
            "unit": [row.unit for row in rows],
        }
    )


def text(table: pd.DataFrame) -> str:
    """The table as it is printed."""
    return table.to_string(index=False, float_format=lambda value: f"{value:,.2f}")
