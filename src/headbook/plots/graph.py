"""Heads by layer as the nodes of a graph, with edges of two signs."""

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from headbook.plots.palette import SERIES
from headbook.plots.svg import INK, STYLE, Drawing, canvas
from headbook.types import UserError

NEGATIVE, POSITIVE = SERIES[1], SERIES[0]
NEEDED = ("layer", "head", "other_layer", "other_head")
WIDEST = 4.5


def graph(
    frame: pd.DataFrame,
    value: str,
    edges: int = 40,
    labels: tuple[str, str] = ("negative", "positive"),
    alt: str = "",
) -> Drawing:
    """The edges of largest magnitude between heads, layers from bottom to top, wider for more.

    `frame` has one row per pair: layer and head counted from one of both ends, and the value.
    `labels` name negative and positive edges, which are dashed and solid. UserError for a table
    without these columns.
    """
    if missing := [name for name in (*NEEDED, value) if name not in frame]:
        raise UserError(f"no column {', '.join(missing)} to draw; there are {', '.join(frame)}")
    layers = int(frame[["layer", "other_layer"]].to_numpy().max())
    heads = int(frame[["head", "other_head"]].to_numpy().max())
    shown = frame.loc[frame[value].abs().nlargest(edges).index].sort_values(value, key=np.abs)
    largest = float(shown[value].abs().max())
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(54 * layers + 70)
        axis = grid[0, 0]
        for row in shown.to_dict("records"):
            ends = (row["head"], row["layer"]), (row["other_head"], row["other_layer"])
            axis.add_patch(_edge(*ends, row[value], largest))
        at = np.stack(np.meshgrid(np.arange(1, heads + 1), np.arange(1, layers + 1)), -1)
        axis.plot(*at.reshape(-1, 2).T, "o", color=INK, markersize=4.5, linestyle="none")
        axis.set(xlim=(0.5, heads + 0.5), ylim=(0.5, layers + 0.7), xlabel="head", ylabel="layer")
        axis.set_xticks(range(1, heads + 1))
        axis.set_yticks(range(1, layers + 1))
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
        handles = [
            Line2D([], [], color=colour, linestyle=line, linewidth=2, label=label)
            for colour, line, label in ((POSITIVE, "-", labels[1]), (NEGATIVE, "--", labels[0]))
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=2)
    return Drawing(figure, alt or f"{value} of pairs of heads, the {len(shown)} largest")


def _edge(
    one: tuple[int, int], other: tuple[int, int], value: float, largest: float
) -> FancyArrowPatch:
    """Straight between layers, an arc within one."""
    bend = 0.0 if one[1] != other[1] else -min(0.5, 0.9 / max(abs(one[0] - other[0]), 1))
    share = (abs(value) / largest) ** 0.5
    return FancyArrowPatch(
        one, other, arrowstyle="-", connectionstyle=f"arc3,rad={bend}", shrinkA=0, shrinkB=0,
        color=POSITIVE if value > 0 else NEGATIVE, linestyle="-" if value > 0 else "--",
        linewidth=0.6 + (WIDEST - 0.6) * share, alpha=0.4 + 0.5 * share,
    )  # fmt: skip
