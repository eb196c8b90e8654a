"""What several seeds gave: stacked in tables, and their mean with how far they spread."""

from collections.abc import Callable, Sequence

import pandas as pd

from headbook.statistics import over_seeds
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row, stacked
from headbook.studies.results import Tables


def of_each_seed(configs: Sequence[Config], compute: Callable[[Config], Tables]) -> Tables:
    """The tables of every config, of one seed each, with the column `seed`; claims are means."""
    found = [(config.seed, compute(config)) for config in configs]
    _, first = found[0]
    tables = {name: stacked(own[name].assign(seed=seed) for seed, own in found) for name in first}
    return tables | {"claims": mean_claims(tables["claims"])}


def mean_claims(rows: pd.DataFrame) -> pd.DataFrame:
    """One row a claim and model: mean over seeds with Student's interval, and the baseline's mean.

    The seed is told where it is one.
    """
    found = []
    for (claim, _), here in rows.groupby(["claim", "model"], sort=False):
        summary = over_seeds(here["value"].to_numpy(dtype=float))
        labels = here.iloc[0].to_dict() | ({"seed": ""} if summary.count > 1 else {})
        found.append(claim_row(str(claim), labels, summary.mean, summary.low, summary.high,
                               baseline=here["baseline"].mean()))  # fmt: skip
    return pd.DataFrame(found)


def mean_table(table: pd.DataFrame, by: Sequence[str], spread: str) -> pd.DataFrame:
    """One row a model, in the table's order: means over seeds, whole numbers as they are.

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


def said(values: pd.Series, form: str) -> str:
    """The mean in nats, and behind it the least and the largest where there are several seeds."""
    mean = f"{values.mean():{form}} nats"
    if len(values) < 2:
        return mean
    return f"{mean} ({values.min():{form}} to {values.max():{form}} over {len(values)} seeds)"
