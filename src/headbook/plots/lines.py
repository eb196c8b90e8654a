"""Lines: values through training, and quality over the heads that are left."""

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from headbook.plots.palette import colour
from headbook.plots.svg import INK, STYLE, Drawing, canvas

DASHES = ("-", "--", "-.", ":")


def curves(
    frame: pd.DataFrame,
    x: str,
    y: str = "value",
    hue: str | None = None,
    low: str = "low",
    high: str = "high",
    xlabel: str = "",
    ylabel: str = "",
    log: bool = False,
    log_y: bool = False,
    marks: pd.DataFrame | None = None,
    marks_label: str = "paper",
    markers: bool = True,
    panel: str | None = None,
    alt: str = "",
) -> Drawing:
    """One line per value of `hue`, with its interval as a band where the table has one.

    With `panel` one panel per value of that column, one below the other, all with the same axes.
    `markers` shows each point of a line. `marks` are the paper's values, or what `marks_label`
    says, in the same columns, as open diamonds, in the colours of the lines where they have the
    column `hue`. With `log` the horizontal axis is logarithmic from the smallest positive value on,
    linear below. With `log_y` the vertical one is logarithmic; its values are above zero.
    """
    panels = list(frame.groupby(panel, sort=False)) if panel else [("", frame)]
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(90 + 210 * len(panels), len(panels), sharex=True, sharey=True)
        for axis, (name, rows) in zip(grid[:, 0], panels, strict=True):
            _lines(axis, rows, x, y, hue, low, high, "o" if markers else None)
            _marks(axis, marks, x, y, hue, marks_label)
            _frame(axis, xlabel or x if axis is grid[-1, 0] else "", ylabel or y)
            axis.set_title(name, loc="left")
        axis = grid[0, 0]
        if pd.api.types.is_integer_dtype(frame[x]):  # there is no layer 1.5
            axis.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
        if log:
            axis.set_xscale("symlog", linthresh=float(frame[x][frame[x] > 0].min()))
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if log_y:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        if hue:
            figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return Drawing(figure, alt or f"{ylabel or y} over {xlabel or x}")


def pruning(
    frame: pd.DataFrame,
    left: str = "left",
    y: str = "value",
    hue: str | None = None,
    low: str = "low",
    high: str = "high",
    xlabel: str = "heads left",
    ylabel: str = "BLEU",
    marks: pd.DataFrame | None = None,
    panel: str | None = None,
    alt: str = "",
) -> Drawing:
    """Dose and response: quality over the number of heads left, most heads on the left."""
    drawing = curves(frame, left, y, hue, low, high, xlabel, ylabel, marks=marks, panel=panel,
                     alt=alt or f"{ylabel} over {xlabel}")  # fmt: skip
    drawing.figure.axes[0].invert_xaxis()
    return drawing


def _lines(
    axis: Axes, frame: pd.DataFrame, x: str, y: str, hue: str | None, low: str, high: str,
    marker: str | None,
) -> None:  # fmt: skip
    groups = frame.groupby(hue, sort=False) if hue else [(None, frame)]
    for place, (name, rows) in enumerate(groups):
        rows = rows.sort_values(x)
        shade = colour(name, place)
        axis.plot(rows[x], rows[y], marker=marker, markersize=4, color=shade,
                  linestyle=DASHES[place // 8 % 4], label=name)  # fmt: skip
        if low in rows and high in rows:
            axis.fill_between(rows[x], rows[low], rows[high], color=shade, alpha=0.2, linewidth=0)


def _marks(
    axis: Axes, marks: pd.DataFrame | None, x: str, y: str, hue: str | None, label: str
) -> None:
    if marks is None:
        return
    diamond = {"marker": "D", "markerfacecolor": "none", "markersize": 7, "linestyle": "none"}
    groups = marks.groupby(hue, sort=False) if hue in marks else [(None, marks)]
    for place, (name, rows) in enumerate(groups):
        shade = INK if name is None else colour(name, place)
        axis.plot(rows[x], rows[y], color=shade, **diamond)
    axis.plot([], [], color=INK, label=label, **diamond)


def _frame(axis: Axes, xlabel: str, ylabel: str) -> None:
    axis.grid(color=INK, alpha=0.15, linewidth=0.7)
    axis.set_axisbelow(True)
    axis.set(xlabel=xlabel, ylabel=ylabel)
