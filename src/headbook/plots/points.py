"""Heads as points on a plane, numbered and coloured by layer."""

import matplotlib
import numpy as np
import pandas as pd

from headbook.plots.palette import SEQUENCE
from headbook.plots.svg import INK, STYLE, Drawing, canvas
from headbook.types import UserError


def points(
    frame: pd.DataFrame,
    panel: str | None = None,
    alt: str = "",
) -> Drawing:
    """One numbered dot per head at `x` and `y`, its number the layer; a panel per value of `panel`.

    Both axes have one scale and no numbers: only distances mean something. UserError for a table
    without the columns x, y and layer.
    """
    needed = ("x", "y", "layer", *([panel] if panel else []))
    if missing := [name for name in needed if name not in frame]:
        raise UserError(f"no column {', '.join(missing)} to draw; there are {', '.join(frame)}")
    panels = list(frame.groupby(panel, sort=False)) if panel else [("", frame)]
    most = int(frame["layer"].max())
    shades = matplotlib.colormaps[SEQUENCE](np.linspace(0, 1, max(most, 2)))
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(320 * len(panels), len(panels))
        for axis, (name, rows) in zip(grid[:, 0], panels, strict=True):
            for layer, own in rows.groupby("layer"):
                shade = shades[int(layer) - 1]
                axis.scatter(own["x"], own["y"], s=150, color=shade, edgecolors=INK, linewidths=0.5)
                dark = shade[:3] @ (0.299, 0.587, 0.114) < 0.5
                for x, y in zip(own["x"], own["y"], strict=True):
                    axis.text(x, y, str(layer), ha="center", va="center", fontsize=10.5,
                              color="#ffffff" if dark else "#1d1d1d")  # fmt: skip
            axis.set(xticks=[], yticks=[])
            axis.set_aspect("equal", adjustable="datalim")
            axis.margins(0.06)
            if name:
                axis.set_title(name, loc="left")
            for spine in axis.spines.values():
                spine.set_visible(True)
                spine.set_alpha(0.3)
    return Drawing(figure, alt or f"Heads of {most} layers as points")
