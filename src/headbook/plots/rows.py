"""Estimates row by row: intervals (a forest) and pairs of values."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

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


def intervals(
    frame: pd.DataFrame,
    rows: str,
    value: str = "value",
    low: str = "low",
    high: str = "high",
    hue: str | None = None,
    colours: Mapping[str, str] | None = None,
    marks: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    xlabel: str = "",
    limits: Limits | None = None,
    alt: str = "",
) -> Drawing:
    """One row per value of `rows`, in the table's order; in it one interval per value of `hue`.

    Where no row has several, all stand in the middle of their rows.
    `marks` maps columns to a key of MARKS, drawn beside each estimate; `labels` names them in the
    legend. A cell that is empty draws nothing.
    """
    names = list(dict.fromkeys(frame[rows]))
    groups = list(dict.fromkeys(frame[hue])) if hue else [None]
    marks, labels = dict(marks or {}), dict(labels or {})
    abreast = len(groups) if frame[rows].duplicated().any() else 1
    height = 26 + len(names) * max(28, 15 * abreast) + 22 * (2 + len(marks) // 2)
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(height)
        axis = grid[0, 0]
        for place, group in enumerate(groups):
            own = frame if group is None else frame[frame[hue] == group]
            shift = (place - (abreast - 1) / 2) * 0.76 / abreast if abreast > 1 else 0.0
            at = np.array([names.index(name) for name in own[rows]]) + shift
            style = {"color": (colours or {}).get(group) or colour(group, place),
                     "marker": SHAPES[place % len(SHAPES)]}  # fmt: skip
            _estimates(axis, own, at, (value, low, high), style)
            _beside(axis, own, at, marks)
        _frame(axis, names, xlabel, limits)
        handles = _legend(groups, colours, marks, labels)
        if handles:
            figure.legend(handles=handles, loc="outside upper left", ncols=2, columnspacing=1.2,
                          handletextpad=0.5)  # fmt: skip
    return Drawing(figure, alt or f"{xlabel or value} by {rows}, with intervals")


def _estimates(
    axis: Axes, own: pd.DataFrame, at: np.ndarray, columns: tuple[str, str, str], style: dict
) -> None:
    value, low, high = (own[name].to_numpy(float) if name in own else None for name in columns)
    if low is not None and high is not None:
        axis.hlines(at, low, high, color=style["color"], linewidth=2.2)
    axis.plot(value, at, linestyle="none", markersize=6.5, **style)


def _beside(axis: Axes, own: pd.DataFrame, at: np.ndarray, marks: Mapping[str, str]) -> None:
    for column, kind in marks.items():
        style = {"color": _mark_colour(kind), "linestyle": "none", **MARKS[kind]}
        axis.plot(own[column].to_numpy(float), at, **style)


def _mark_colour(kind: str) -> str:
    return INK if kind == "paper" else colour(kind)


def _frame(axis: Axes, names: Sequence[str], xlabel: str, limits: Limits | None) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(axis="x", color=INK, alpha=0.15, linewidth=0.7)
    axis.set_axisbelow(True)
    for line in range(1, len(names)):
        axis.axhline(line - 0.5, color=INK, alpha=0.12, linewidth=0.6)
    axis.set(xlabel=xlabel, xlim=limits)


def _legend(
    groups: Sequence[str | None],
    colours: Mapping[str, str] | None,
    marks: Mapping[str, str],
    labels: Mapping[str, str],
) -> list[Line2D]:
    handles = [
        Line2D([], [], color=(colours or {}).get(group) or colour(group, place), linewidth=2.2,
               marker=SHAPES[place % len(SHAPES)], label=str(group))
        for place, group in enumerate(groups)
        if group is not None
    ]  # fmt: skip
    for column, kind in marks.items():
        handles.append(Line2D([], [], linestyle="none", color=_mark_colour(kind),
                              label=labels.get(column, column), **MARKS[kind]))  # fmt: skip
    return handles


def paired(
    frame: pd.DataFrame,
    rows: str,
    left: str,
    right: str,
    labels: tuple[str, str] | None = None,
    colours: tuple[str, str] | None = None,
    xlabel: str = "",
    limits: Limits | None = None,
    alt: str = "",
) -> Drawing:
    """Two values per row, joined by a line: an open and a filled dot."""
    names = [str(name) for name in frame[rows]]
    first, second = labels or (left, right)
    one, two = colours or (colour(left, 0), colour(right, 1))
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(60 + 24 * len(names))
        axis = grid[0, 0]
        at = np.arange(len(names))
        axis.hlines(at, frame[left], frame[right], color=INK, alpha=0.35, linewidth=1.6)
        axis.plot(frame[left], at, "o", color=one, markerfacecolor="none", markersize=7,
                  label=first)  # fmt: skip
        axis.plot(frame[right], at, "o", color=two, markersize=7, label=second)
        _frame(axis, names, xlabel, limits)
        figure.legend(loc="outside upper left", ncols=2)
    return Drawing(figure, alt or f"{first} and {second} by {rows}")
