"""Square matrices of one head side by side, a colour for each sign."""

from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap, to_rgba

from headbook.plots.palette import SERIES
from headbook.plots.svg import STYLE, Drawing, canvas
from headbook.types import UserError

NEGATIVE, POSITIVE = SERIES[1], SERIES[0]
SIGNED = LinearSegmentedColormap.from_list(
    "signed", [to_rgba(NEGATIVE), to_rgba("#808080", 0), to_rgba(POSITIVE)]
)
"""Nothing at zero, so that it is the page's own ground, light or dark."""


def matrices(
    frame: pd.DataFrame,
    panels: Mapping[str, str],
    rows: str,
    limit: float | None = None,
    label: str = "",
    alt: str = "",
) -> Drawing:
    """One panel per matrix and value of `rows`, all in the same colours, zero in none.

    Colours run from -`limit` to `limit`, the largest magnitude of all if none is given.

    `frame` has a row per cell: `query` and `key` counted from one, their texts `query_token` and
    `key_token`, a column of `rows`, and one column per panel, whose titles `panels` gives.
    UserError for a table without these.
    """
    needed = ("query", "key", "query_token", "key_token", rows, *panels)
    if missing := [name for name in needed if name not in frame]:
        raise UserError(f"no column {', '.join(missing)} to draw; there are {', '.join(frame)}")
    names = list(dict.fromkeys(frame[rows]))
    tokens = [_short(text) for text in frame.drop_duplicates("key").sort_values("key")["key_token"]]
    largest = limit or float(frame[list(panels)].abs().to_numpy().max())
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(146 * len(names) + 112, len(names), len(panels))
        for line, name in zip(grid, names, strict=True):
            own = frame[frame[rows] == name]
            for axis, (column, title) in zip(line, panels.items(), strict=True):
                cells = own.pivot(index="query", columns="key", values=column)
                drawn = axis.pcolormesh(cells, cmap=SIGNED, vmin=-largest, vmax=largest)
                first, last = axis is line[0], name == names[-1]
                places = np.arange(len(tokens)) + 0.5
                axis.set_xticks(places, tokens if last else [], rotation=90, fontsize=10)
                axis.set_yticks(places, tokens if first else [], fontsize=10)
                axis.set(aspect="equal", title=title if name == names[0] else "")
                axis.set_ylabel(name if first else "")
                axis.invert_yaxis()
                axis.tick_params(length=0)
                for spine in axis.spines.values():
                    spine.set_visible(True)
                    spine.set_alpha(0.4)
        bar = figure.colorbar(drawn, ax=list(grid.flat), location="bottom", aspect=40, pad=0.02)
        bar.set_label(label)
        bar.outline.set_alpha(0.4)
    return Drawing(figure, alt or f"{', '.join(panels.values())} by {rows}")


def _short(text: str) -> str:
    return text.replace("▁", " ").strip() or "▁"
