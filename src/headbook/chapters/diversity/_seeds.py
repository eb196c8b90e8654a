"""Means over seeds with their intervals, as figures and prose of this part need them."""

from collections.abc import Callable, Sequence

import pandas as pd

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.tables import mean_claims, stacked
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


def of_each_seed(configs: Sequence[Config], compute: Callable[[Config], Tables]) -> Tables:
    """The tables of every config, of one seed each, with the column `seed`; claims are means."""
    found = [(config.seed, compute(config)) for config in configs]
    _, first = found[0]
    tables = {name: stacked(own[name].assign(seed=seed) for seed, own in found) for name in first}
    return tables | {"claims": mean_claims(tables["claims"])}


def mean_table(table: pd.DataFrame, by: Sequence[str], spread: str) -> pd.DataFrame:
    """One row per model, in the table's order: means over seeds, whole numbers as they are.

    Where there are several, the column behind `spread` is its standard deviation over seeds, and
    the last one their number.
    """
    groups = table.drop(columns="seed").groupby(list(by), sort=False)
    measured = table.select_dtypes("floating").columns
    means = groups.agg({
        name: "mean" if name in measured else "first"
        for name in table.columns.drop(["seed", *by])
    }).reset_index()  # fmt: skip
    if table["seed"].nunique() > 1:
        means.insert(means.columns.get_loc(spread) + 1, f"{spread}_sd",
                     groups[spread].std().to_numpy())  # fmt: skip
        means["seeds"] = groups.size().to_numpy()
    return means
