"""Page 33: the outputs of heads drawing together and apart through a training."""

import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._frames import one_column_a_pair, one_row_a_pair, run
from headbook.chapters.diversity._watched import watched_tables
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.verdict import COLUMNS
from headbook.heads.four_metrics import FREE, RAW
from headbook.plots.film import Film, film
from headbook.runs.store import Store

NUMBER = 33
TITLE = "Do heads draw apart as a model learns?"
WORK = "asad2024"
KEYS = ("model", "form")

RUN = ["model", "form"]
PAIR = ["layer", "head", "other"]
MOVED = 3
"""Pairs of each model and form that are listed."""
FORMS = {FREE: "outputs of heads", RAW: "the article's slices"}
PAPER = {
    1: ("+0.006 → +0.043", "0.05 → 0.10"),
    2: ("+0.058 → +0.037", "0.13 → 0.20"),
}
"""Mean and standard deviation over pairs, in the first and last batches of the article's model of
8 heads and dropout 0.1, by layer; recomputed from its released table."""


Parameters = Trained


def compute(parameters: Parameters, store: Store) -> Tables:
    """Nothing at `published`; else every frame, the losses, and changes from first to last."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The tables of a profile; models that the store lacks are trained."""
    watched = watched_tables(config, store)
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
    """One row per model, form and pair: its first value, its last, and the change."""
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
    """One row per layer: mean and standard deviation over its pairs, first and last frame."""
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


def animated(tables: Tables) -> Film:
    """Every model and form whose heads are as many as the first model's, outputs of heads first."""
    frames = one_row_a_pair(tables["frames"])
    runs = [
        run(frames, tables["losses"], model, form, f"{_setting(model)}: {name}")
        for model in frames["model"].unique()
        for form, name in FORMS.items()
    ]
    return film(
        [each for each in runs if each.shape == runs[0].shape],
        "Output dissimilarity between all heads, one matrix per layer, heads in rows and columns, "
        "through training; a slider chooses the update.",
        "dissimilarity",
        ("two heads write alike", "they cancel"),
    )


def _setting(model: str) -> str:
    return model.split(":")[0]


def by_layer(tables: Tables) -> pd.DataFrame:
    """Mean over pairs of heads, first → last frame; one row per model and form, layers beside."""
    rows = tables["layers"]
    means = [
        f"{words.signed(row.mean_first)} → {words.signed(row.mean_last)}"
        for row in rows.itertuples()
    ]
    shown = rows.assign(setting=rows["model"].map(_setting), mean=means)
    shown["measured on"] = rows["form"].map(FORMS)
    wide = shown.pivot(index=["setting", "measured on"], columns="layer", values="mean")
    return wide.rename(columns="layer {}".format).fillna("").rename_axis(columns=None).reset_index()


def pairs(tables: Tables) -> pd.DataFrame:
    """The pairs of heads that moved most between the first and the last frame."""
    rows = tables["pairs"].round(2)
    rows = rows.assign(model=rows["model"].map(_setting), form=rows["form"].map(FORMS))
    return rows.rename(columns={"model": "setting", "form": "measured on"})


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: first → last frame and the last but one, by setting and form."""
    found: Facts = {"frames": str(tables["frames"]["update"].nunique())}
    for row in tables["layers"].to_dict("records"):
        key = f"{_setting(row['model']).split()[-1]}_{'true' if row['form'] == FREE else 'slices'}"
        ends = (words.signed(row[f"mean_{end}"], 3) for end in ("first", "last"))
        found[f"{key}_{row['layer']}"] = " → ".join(ends)
        spread = (f"{row[f'spread_{end}']:.2f}" for end in ("first", "last"))
        found[f"{key}_{row['layer']}_spread"] = " → ".join(spread)
    for (model, form, layer), mean in _last_but_one(tables["frames"]).items():
        key = f"{_setting(model).split()[-1]}_{'true' if form == FREE else 'slices'}"
        found[f"{key}_{layer}_earlier"] = words.signed(mean)
    for (model, form), rows in tables["layers"].groupby(RUN):
        key = f"{_setting(model).split()[-1]}_{'true' if form == FREE else 'slices'}"
        found[f"{key}_least"] = words.signed(rows["mean_last"].min())
        found[f"{key}_most"] = words.signed(rows["mean_last"].max())
    for layer, (mean, spread) in PAPER.items():
        found |= {f"paper_{layer}": mean, f"paper_{layer}_spread": spread}
    return found


def _last_but_one(frames: pd.DataFrame) -> pd.Series:
    """Mean over the pairs of a layer in the last frame but one, by model, form and layer."""
    rows = one_row_a_pair(frames)
    for keep in (pd.Series.lt, pd.Series.eq):  # without the last frame, then the last of the rest
        rows = rows[keep(rows["update"], rows.groupby(RUN)["update"].transform("max"))]
    return rows.groupby([*RUN, "layer"])["value"].mean()
