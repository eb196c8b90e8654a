"""Means over seeds with their intervals, as figures and prose of this part need them."""

from collections.abc import Sequence

import pandas as pd

from headbook.statistics import over_seeds


def over_seed(frame: pd.DataFrame, by: Sequence[str], column: str) -> pd.DataFrame:
    """One row per value of `by`, in the table's order: `value`, `low`, `high`, `seeds`.

    `frame` has one row per seed; the interval is Student's, NaN with a single seed. Rows without
    a value are left out.
    """
    groups = frame.dropna(subset=column).groupby(list(by), sort=False)[column]
    found = groups.agg(
        value="mean",
        low=lambda values: over_seeds(values.to_numpy()).low,
        high=lambda values: over_seeds(values.to_numpy()).high,
        seeds="count",
    )
    return found.reset_index()


def differences(frame: pd.DataFrame, base: str, column: str) -> pd.DataFrame:
    """Every variant's column minus that of the variant `base` of the same seed.

    One row per variant and seed, with the difference as `value`; variants in the table's order.
    """
    wide = frame.pivot(index="variant", columns="seed", values=column)
    wide = wide.loc[list(dict.fromkeys(frame["variant"]))]
    apart = (wide - wide.loc[base]).drop(index=base)
    return apart.reset_index().melt("variant", value_name="value")
