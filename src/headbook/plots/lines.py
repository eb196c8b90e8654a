"""Lines: values through training, layers or the heads that are left."""

import matplotlib
import pandas as pd
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from headbook.plots.palette import colour
from headbook.plots.svg import INK, STYLE, Drawing, canvas

DASHES = ("-", "--", "-.", ":")
DIAMOND = {"marker": "D", "markerfacecolor": "none", "markersize": 7, "linestyle": "none"}


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
    percent: bool = False,
    alt: str = "",
) -> Drawing:
    """One line per value of `hue`, with its interval as a band where the table has one.

    `markers` shows each point of a line. `marks` are the paper's values, or what `marks_label`
    says, in the same columns, as open diamonds, in the colours of the lines where they have the
    column `hue`. With `log` the horizontal axis is logarithmic from the smallest positive value on,
    linear below. With `log_y` the vertical one is logarithmic; its values are above zero.
    With `percent` it says shares in per cent.
    """
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(300)
        axis = grid[0, 0]
        lines = _groups(frame, hue)
        shades = {name: colour(name, place) for place, (name, _) in enumerate(lines)}
        for place, (name, rows) in enumerate(lines):
            rows, shade = rows.sort_values(x), shades[name]
            style = {"color": shade, "linestyle": DASHES[place // 8 % 4], "label": name}
            axis.plot(rows[x], rows[y], marker="o" if markers else None, markersize=4, **style)
            if low in rows and high in rows:
                band = {"color": shade, "alpha": 0.2, "linewidth": 0}
                axis.fill_between(rows[x], rows[low], rows[high], **band)
        if marks is not None:
            for name, rows in _groups(marks, hue if hue in marks else None):
                shade = INK if name is None else shades.get(name) or colour(name, len(shades))
                axis.plot(rows[x], rows[y], color=shade, **DIAMOND)
            axis.plot([], [], color=INK, label=marks_label, **DIAMOND)
        axis.grid(color=INK, alpha=0.15, linewidth=0.7)
        axis.set_axisbelow(True)
        axis.set(xlabel=xlabel or x, ylabel=ylabel or y)
        if pd.api.types.is_integer_dtype(frame[x]):  # there is no layer 1.5
            axis.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
        if log:
            axis.set_xscale("symlog", linthresh=float(frame[x][frame[x] > 0].min()))
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        if log_y:
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        if percent:
            axis.yaxis.set_major_formatter(PercentFormatter(1))
        if hue:
            figure.legend(*axis.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return Drawing(figure, alt or f"{ylabel or y} over {xlabel or x}")


def _groups(frame: pd.DataFrame, by: str | None) -> list[tuple[object, pd.DataFrame]]:
    return list(frame.groupby(by, sort=False)) if by else [(None, frame)]
