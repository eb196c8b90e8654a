"""Estimates row by row, with their intervals: a forest."""

from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from headbook.plots.palette import colour
from headbook.plots.svg import INK, STYLE, Drawing, Limits, canvas

MARKS = {
    "baseline": {"marker": "|", "markersize": 15, "markeredgewidth": 2.6},
    "rule": {"marker": "x", "markersize": 7, "markeredgewidth": 1.8},
    "paper": {"marker": "D", "markersize": 6.5, "markerfacecolor": "none", "markeredgewidth": 1.4},
    "untrained": {"marker": "o", "markersize": 5.5, "markerfacecolor": "none"},
    "random": {"marker": "1", "markersize": 8, "markeredgewidth": 1.4},
}
"""Shape of what an estimate stands beside; the paper's values are open diamonds in ink."""
SHAPES = ("o", "s", "^", "v", "P", "X", "*", "h")

HIGHEST = 320
"""Units of a figure with many rows, which stand closer then; as few as can be read, if need be."""


def intervals(
    frame: pd.DataFrame,
    rows: str,
    value: str = "value",
    low: str = "low",
    high: str = "high",
    hue: str | None = None,
    marks: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    xlabel: str = "",
    limits: Limits | None = None,
    percent: bool = False,
    alt: str = "",
) -> Drawing:
    """One row per value of `rows`, in the table's order; in it one interval per value of `hue`.

    Where no row has several, all stand in the middle of their rows.
    `marks` maps columns to a key of MARKS, drawn beside each estimate; `labels` names them in the
    legend. A cell that is empty draws nothing. With `percent` the axis says shares in per cent.
    """
    names = list(dict.fromkeys(frame[rows]))
    groups = list(dict.fromkeys(frame[hue])) if hue else [None]
    marks, labels = dict(marks or {}), dict(labels or {})
    abreast = len(groups) if frame[rows].duplicated().any() else 1
    around = 26 + 22 * (2 + len(marks) // 2)
    row = max(11 * abreast, 15, min((HIGHEST - around) / len(names), max(28, 15 * abreast)))
    height = around + len(names) * row
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(height)
        axis = grid[0, 0]
        for place, group in enumerate(groups):
            own = frame if group is None else frame[frame[hue] == group]
            shift = (place - (abreast - 1) / 2) * 0.76 / abreast if abreast > 1 else 0.0
            at = np.array([names.index(name) for name in own[rows]]) + shift
            style = {"color": colour(group, place), "marker": SHAPES[place % len(SHAPES)]}
            if low in own and high in own:
                axis.hlines(at, *_numbers(own, low, high), color=style["color"], linewidth=2.2)
            axis.plot(*_numbers(own, value), at, linestyle="none", markersize=6.5, **style)
            axis.plot([], [], linewidth=2.2, label="" if group is None else str(group), **style)
            for column, kind in marks.items():
                axis.plot(*_numbers(own, column), at, linestyle="none", **_mark(kind))
        for column, kind in marks.items():
            label = labels.get(column, column)
            axis.plot([], [], linestyle="none", label=label, **_mark(kind))
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(max(len(names), 1) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        axis.grid(axis="x", color=INK, alpha=0.15, linewidth=0.7)
        axis.set_axisbelow(True)
        for line in range(1, len(names)):
            axis.axhline(line - 0.5, color=INK, alpha=0.12, linewidth=0.6)
        axis.set(xlabel=xlabel, xlim=limits)
        if percent:
            axis.xaxis.set_major_formatter(PercentFormatter(1))
        if hue or marks:
            figure.legend(loc="outside upper left", ncols=2, columnspacing=1.2, handletextpad=0.5)
    return Drawing(figure, alt or f"{xlabel or value} by {rows}, with intervals")


def _numbers(frame: pd.DataFrame, *columns: str) -> list[np.ndarray]:
    """The columns; an empty cell, of whatever type, is NaN."""
    return [frame[name].to_numpy(float) for name in columns]


def _mark(kind: str) -> dict:
    return {"color": INK if kind == "paper" else colour(kind), **MARKS[kind]}
