"""Heads by layer: a value as colour."""

import matplotlib
import pandas as pd
import seaborn as sns
from matplotlib.ticker import PercentFormatter

from headbook.plots.palette import SEQUENCE
from headbook.plots.svg import STYLE, Drawing, Limits, canvas
from headbook.types import UserError

MANY = 12
"""Layers of a map whose rows are high."""
ON_DARK, ON_LIGHT = "#ffffff", "#1d1d1d"


def heads(
    frame: pd.DataFrame,
    column: str,
    kind: str | None = None,
    label: str | None = None,
    limits: Limits | None = None,
    percent: bool = False,
    alt: str = "",
) -> Drawing:
    """A value of every head, layers from bottom to top, one panel per kind of attention.

    `frame` has one row per head: `layer` and `head` counted from one, the value, and `kind` where
    there are several. `label` names a column of short texts written into the cells; with `percent`
    the colour bar says shares in per cent. UserError for a table without these columns or with two
    rows for a head.
    """
    needed = ["layer", "head", column, *([label] if label else [])]
    if missing := [name for name in needed if name not in frame]:
        raise UserError(f"no column {', '.join(missing)} to draw; there are {', '.join(frame)}")
    if frame.empty:
        raise UserError("no head is in the table, so there is none to draw")
    if frame.duplicated([name for name in ("kind", "layer", "head") if name in frame]).any():
        raise UserError("several rows for one head: choose the rows of one model and text to draw")
    if kind is not None:
        frame = frame[frame["kind"] == kind]
    frame = frame.assign(**{column: frame[column].astype(float)})
    panels = list(frame.groupby("kind", sort=False)) if "kind" in frame else [("", frame)]
    heights = [int(rows["layer"].max()) for _, rows in panels]
    limits = limits or (float(frame[column].min()), float(frame[column].max()))
    with matplotlib.rc_context(STYLE):
        row = 34 if max(heights) <= MANY else 22
        figure, grid = canvas(row * sum(heights) + 62 + 40 * len(panels), len(panels), 1,
                              gridspec_kw={"height_ratios": heights})  # fmt: skip
        for axis, (name, rows) in zip(grid[:, 0], panels, strict=True):
            drawn = _panel(axis, rows, column, label, limits)
            if len(panels) > 1:
                axis.set_title(f"{name} heads", loc="left")
        form = {"location": "bottom", "aspect": 40, "pad": 0.02}
        form["format"] = PercentFormatter(1) if percent else None
        bar = figure.colorbar(drawn, ax=list(grid[:, 0]), **form)
        bar.set_label(column.replace("_", " "))
        bar.outline.set_visible(False)
    return Drawing(figure, alt or _described(frame, column))


def _panel(axis, rows: pd.DataFrame, column: str, label: str | None, limits: Limits):
    layers, count = int(rows["layer"].max()), int(rows["head"].max())
    values = rows.pivot(index="layer", columns="head", values=column)
    values = values.reindex(index=range(1, layers + 1), columns=range(1, count + 1))
    options = {"vmin": limits[0], "vmax": limits[1], "cbar": False}
    sns.heatmap(values, ax=axis, cmap=SEQUENCE, xticklabels=1, yticklabels=1, **options)
    for row in rows.to_dict("records") if label else ():
        if pd.notna(row[label]) and row[label]:
            shade = ON_LIGHT if row[column] > sum(limits) / 2 else ON_DARK
            middle = {"color": shade, "ha": "center", "va": "center"}
            axis.text(row["head"] - 0.5, row["layer"] - 0.5, row[label], fontsize=10.5, **middle)
    axis.invert_yaxis()
    axis.tick_params(axis="y", rotation=0)
    axis.set(xlabel="head", ylabel="layer")
    axis.tick_params(length=0)
    return axis.collections[0]


def _described(frame: pd.DataFrame, column: str) -> str:
    if frame[column].isna().all():
        return f"{column} of every head: no values"
    top = frame.iloc[frame[column].argmax()]
    return (
        f"Map of {column.replace('_', ' ')} over layers and heads; the largest value is "
        f"{top[column]:.3g}, of layer {top['layer']} head {top['head']}."
    )
