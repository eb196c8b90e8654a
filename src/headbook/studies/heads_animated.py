"""Notebook 33: the heads of every layer drawing together and apart through a training."""

from collections.abc import Iterator

import pandas as pd

from headbook.claims.verdict import COLUMNS
from headbook.runs.store import Store
from headbook.studies.animation import FORMS, show_animations
from headbook.studies.config import Config
from headbook.studies.diversity_watched import watched_tables
from headbook.studies.heads_scene import one_column_a_pair
from headbook.studies.results import Tables

STUDY = "33_heads_animated"
RUN = ["model", "form"]
PAIR = ["layer", "head", "other"]
MOVED = 3
"""Pairs of each model and form that are listed."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every frame with a column a pair of heads, the losses, and what moved between the ends."""
    watched = watched_tables(config, store or Store.default())
    # A pair is as unlike from the one side as from the other, and these tables are published.
    frames = watched["frames"].query("head < other").reset_index(drop=True)
    ends = _ends(frames)
    return {
        "frames": one_column_a_pair(frames),
        "losses": watched["losses"],
        "layers": _layers(ends),
        "pairs": _moved_most(ends),
        "claims": pd.DataFrame(columns=COLUMNS),
    }


def _ends(frames: pd.DataFrame) -> pd.DataFrame:
    """One row a model, form and pair: its first number, its last, and the change."""
    updates = frames.groupby(RUN)["update"]
    first, last = (
        frames[frames["update"] == updates.transform(end)].rename(
            columns={"update": f"{name}_update", "value": name}
        )
        for name, end in (("first", "min"), ("last", "max"))
    )
    both = first.merge(last, on=[*RUN, *PAIR], validate="one_to_one")
    return both.assign(change=both["last"] - both["first"])


def _layers(ends: pd.DataFrame) -> pd.DataFrame:
    """One row a layer: mean and standard deviation over its pairs, in the first and last frame."""
    by = [*RUN, "first_update", "last_update", "layer"]
    groups = ends.groupby(by, sort=False)
    means = groups[["first", "last"]].mean().add_prefix("mean_")
    # Of all the pairs there are, not of a sample; a single pair has a spread of 0.
    spreads = groups[["first", "last"]].std(ddof=0).add_prefix("spread_")
    return means.join(spreads).reset_index()


def _moved_most(ends: pd.DataFrame) -> pd.DataFrame:
    """The first pairs of every model and form, by how far they moved either way."""
    ordered = ends.assign(moved=ends["change"].abs()).sort_values(
        [*RUN, "moved"], ascending=[True, True, False], kind="stable"
    )
    listed = ordered.groupby(RUN).head(MOVED)
    return listed[[*RUN, *PAIR, "first", "last", "change"]].reset_index(drop=True)


def draw(tables: Tables, form: str) -> None:
    """The animations of the published run and of this one, and a still picture of each."""
    show_animations(STUDY, tables, form)


def layers_table(tables: Tables) -> pd.DataFrame:
    """Mean and spread over the pairs of every layer, from the first frame to the last."""
    layers = tables["layers"]
    wide = [
        layers.assign(
            number=number,
            change=[
                f"{first:.2f} to {last:.2f}"
                for first, last in zip(
                    layers[f"{number}_first"], layers[f"{number}_last"], strict=True
                )
            ],
        ).pivot(index=[*RUN, "number"], columns="layer", values="change")
        for number in ("mean", "spread")
    ]
    table = pd.concat(wide).sort_index().rename(columns="layer {}".format)
    return table.fillna("").rename_axis(columns=None).reset_index()


def pairs_table(tables: Tables) -> pd.DataFrame:
    """The pairs of heads that moved most between the first and the last frame."""
    return tables["pairs"]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    return " ".join(_sentences(tables))


def _sentences(tables: Tables) -> Iterator[str]:
    pairs = tables["pairs"].groupby(RUN, sort=False)
    for (model, form), layers in tables["layers"].groupby(RUN, sort=False):
        first, last = layers.iloc[0][["first_update", "last_update"]]
        change = layers["mean_last"] - layers["mean_first"]
        most = layers.loc[change.abs().idxmax()]
        pair = pairs.get_group((model, form)).iloc[0]
        yield (
            f"{model}, {FORMS[form]}: from update {first} to {last} the mean over pairs rose in "
            f"{(change > 0).sum()} of {len(layers)} layers and moved most in layer "
            f"{most['layer']}, from {most['mean_first']:+.2f} to {most['mean_last']:+.2f}; the "
            f"spread over pairs went from {_range(layers['spread_first'])} to "
            f"{_range(layers['spread_last'])} over the layers; of all pairs heads {pair['head']} "
            f"and {pair['other']} of layer {pair['layer']} moved most, from {pair['first']:+.2f} "
            f"to {pair['last']:+.2f}."
        )


def _range(values: pd.Series) -> str:
    return " – ".join(dict.fromkeys(f"{end:.2f}" for end in (values.min(), values.max())))
