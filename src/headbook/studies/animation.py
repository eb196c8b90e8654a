"""Output dissimilarity between heads through a training: an animation, and a still picture of it.

A frame is one measured update: a matrix a layer, and a line in the curve of the loss above them.
No more than two matrices stand side by side, so that all layers, the buttons and the slider fit on
a phone; on paper and without a script the still picture shows a few of the frames.
"""

from collections.abc import Iterator
from html import escape
from itertools import permutations
from math import ceil
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from plotly.subplots import make_subplots

from headbook.studies.diversity_scores import FREE, RAW
from headbook.studies.heads_scene import Matrix, Scene, one_row_a_pair, scene
from headbook.studies.interactive import Interactive
from headbook.studies.page import Folded, Picture, display, markdown
from headbook.studies.results import Tables, all_published

FORMS = {RAW: "raw: slices behind the projection", FREE: "scale-free: true outputs of heads"}
COLOURS = ("#e08214", "#fdb863", "#fee0b6", "#f7f7f7", "#d8daeb", "#b2abd2", "#8073ac")
"""Orange below 0, purple above it; ColorBrewer's PuOr without its ends, on which no black is
read."""
NO_VALUE = "#d4d4d4"
"""Of the diagonal: a head is not compared with itself, which is no dissimilarity of 0."""
MARK, CURVE_COLOUR = "#b35900", "#555555"
ACROSS = 2
PANEL, CURVE, GAP, BETWEEN = 136, 56, 34, 50
"""Pixels: a matrix, the curve of the loss, and what is free beside and below each."""
EDGES = {"l": 38, "r": 8, "t": 190, "b": 72}
"""Pixels around them; on top stand the title, the buttons and the slider."""
LABELS = 8
"""Heads that are numbered along an axis, at most; cells of more heads are too small for a text."""
MILLISECONDS = 350
"""A frame is shown for so long: slow enough to follow one matrix, and below three a second."""
STILLS = 3
FAINT = 0.05
"""Nearer to 0 a value has no sign in the still picture."""
KEY = "darker is further from 0; −: the two heads write alike, +: unlike"


def show_animations(study: str, tables: Tables, form: str) -> None:
    """Every model of the published run, where there is one, and then of this run, in one form.

    Published at several profiles, the largest is animated, and stills of the others are folded.
    """
    largest, *smaller = all_published(study) or [None]
    if largest:
        display(markdown(f"**Published run**: {largest.provenance}"))
        _show(largest.tables, form, "published")
    for kept in smaller:
        for alt, picture in _stills(kept.tables, form):
            display(Folded(f"Published at {kept.provenance}", Picture(picture, alt)))
    display(markdown("**This run**"))
    _show(tables, form, "this")


def _show(tables: Tables, form: str, run: str) -> None:
    frames = one_row_a_pair(tables["frames"])
    for number, (alt, picture) in enumerate(_stills(tables, form)):
        model = tables["frames"]["model"].unique()[number]
        moving = animated(frames, tables["losses"], model, form)
        controls = f"{alt} Buttons play and pause, a slider chooses the update."
        display(Interactive(moving, controls, f"heads-{run}-{form}-{number + 1}"))
        display(Picture(picture, alt))


def _stills(tables: Tables, form: str) -> Iterator[tuple[str, Figure]]:
    frames = one_row_a_pair(tables["frames"])
    for model in tables["frames"]["model"].unique():
        alt = (
            "Output dissimilarity between heads through training, one matrix a layer, heads in "
            f"rows and columns; {model}, {FORMS[form]}."
        )
        yield alt, still(frames, tables["losses"], model, form)


def animated(frames: pd.DataFrame, losses: pd.DataFrame, model: str, form: str) -> go.Figure:
    """The moving figure of one model in one form; it stands still until it is asked to play.

    The cells of a matrix are markers: plotly moves those from frame to frame, and a heat map it
    takes away and draws anew, so that the reader sees it flicker.
    """
    shown = scene(frames, losses, model, form)
    first, down = shown.updates[0], ceil(shown.layers / ACROSS)
    figure = _panels(shown, down)
    _add_cells(figure, shown)
    for trace in (_curve(shown), _line(shown), _moment(shown)):
        figure.add_trace(trace, row=1, col=1)
    changing = [*range(shown.layers), shown.layers + 1, shown.layers + 2]
    figure.frames = [
        go.Frame(name=str(update), data=list(_changes(shown, update)), traces=changing)
        for update in shown.updates
    ]
    for trace, change in zip(changing, _changes(shown, first), strict=True):
        figure.data[trace].update(change)
    figure.update_layout(title=_title(shown), coloraxis=_colours(shown.limit),
                         updatemenus=[_buttons()], sliders=[_slider(shown)])  # fmt: skip
    return figure


def _panels(shown: Scene, down: int) -> go.Figure:
    """Empty axes in pixels: the loss on top, below it the layers in `down` rows."""
    wide, high = ACROSS * PANEL + (ACROSS - 1) * GAP, CURVE + down * (PANEL + BETWEEN)
    cells = [{} if place < shown.layers else None for place in range(down * ACROSS)]
    figure = make_subplots(
        down + 1, ACROSS, row_heights=[CURVE, *[PANEL] * down],
        specs=[[{"colspan": ACROSS}, None],
               *(cells[row * ACROSS:(row + 1) * ACROSS] for row in range(down))],
        subplot_titles=["loss of the batch, nats",
                        *map("layer {}".format, range(1, len(cells) + 1))],
        horizontal_spacing=GAP / wide, vertical_spacing=BETWEEN / high,
    )  # fmt: skip
    figure.update_annotations(font_size=12)
    figure.update_layout(
        template="none", showlegend=False, margin=EDGES, font_size=11, plot_bgcolor=NO_VALUE,
        width=wide + EDGES["l"] + EDGES["r"], height=high + EDGES["t"] + EDGES["b"],
    )  # fmt: skip
    _axes(figure, shown)
    return figure


def _axes(figure: go.Figure, shown: Scene) -> None:
    """Every matrix numbers its heads, the first on top; nothing can be dragged out of sight."""
    plain = {"fixedrange": True, "showgrid": False, "zeroline": False, "ticks": ""}
    last = max(*shown.updates, *shown.losses)
    losses = [min(shown.losses.values()), max(shown.losses.values())]
    figure.update_xaxes(**plain).update_xaxes(range=[-0.02 * last, 1.02 * last], row=1, col=1)
    figure.update_yaxes(**plain).update_yaxes(tickvals=losses, tickformat=".1f", row=1, col=1)
    ends, every = [0.5, shown.heads + 0.5], ceil(shown.heads / LABELS)
    for place in range(shown.layers):
        here = {"row": place // ACROSS + 2, "col": place % ACROSS + 1}
        figure.update_xaxes(range=ends, tick0=1, dtick=every, **here)
        figure.update_yaxes(range=ends[::-1], tick0=1, dtick=every, **here)
        if here["col"] == 1:
            figure.update_yaxes(title={"text": "head", "standoff": 4}, **here)


def _add_cells(figure: go.Figure, shown: Scene) -> None:
    """One trace a layer, a square marker a pair; its numbers are the frames'."""
    pairs = list(permutations(range(1, shown.heads + 1), 2))
    cell = PANEL / shown.heads
    for place in range(shown.layers):
        told = f"layer {place + 1}, heads %{{y}} and %{{x}}: %{{marker.color:+.3f}}<extra></extra>"
        cells = go.Scatter(
            y=[head for head, _ in pairs], x=[other for _, other in pairs], mode="markers+text",
            marker={"symbol": "square", "size": cell - 1, "opacity": 1, "coloraxis": "coloraxis"},
            textfont={"size": min(11, round(0.53 * cell)), "color": "black"}, hovertemplate=told,
        )  # fmt: skip
        figure.add_trace(cells, row=place // ACROSS + 2, col=place % ACROSS + 1)


def _curve(shown: Scene) -> go.Scatter:
    return go.Scatter(x=list(shown.losses), y=list(shown.losses.values()), mode="lines",
                      line={"color": CURVE_COLOUR, "width": 1.5},
                      hovertemplate="update %{x}: %{y:.2f} nats<extra></extra>")  # fmt: skip


def _line(shown: Scene) -> go.Scatter:
    """Where in the curve of the loss a frame stands."""
    ends = [min(shown.losses.values()), max(shown.losses.values())]
    return go.Scatter(y=ends, mode="lines", hoverinfo="skip",
                      line={"color": MARK, "width": 2})  # fmt: skip


def _moment(shown: Scene) -> go.Scatter:
    """The frame in words, in the corner that a falling curve leaves free."""
    return go.Scatter(x=[max(*shown.updates, *shown.losses)], y=[max(shown.losses.values())],
                      mode="text", textposition="bottom left", hoverinfo="skip",
                      textfont={"size": 12, "color": "black"})  # fmt: skip


def _changes(shown: Scene, update: int) -> Iterator[dict[str, Any]]:
    """What a frame changes: every layer's numbers, the line, the words."""
    for matrix in shown.matrices(update):
        values = [value for row in matrix for value in row if value is not None]
        notes = [_tenths(value) if shown.heads <= LABELS else "" for value in values]
        yield {"type": "scatter", "marker": {"color": values}, "text": notes}
    yield {"type": "scatter", "x": [update, update]}
    yield {"type": "scatter", "text": [shown.moment(update)]}


def _tenths(value: float) -> str:
    """What stands in a cell for who cannot tell the colours: the sign and one digit."""
    text = f"{value:+.1f}"
    return "0" if text[1:] == "0.0" else text.replace("0.", ".")


def _title(shown: Scene) -> dict[str, Any]:
    # The setting on a line of its own: the whole name is wider than the figure.
    name = escape(shown.model).replace(": ", ":<br>", 1)
    return {"text": f"<b>{name}</b><br>{FORMS[shown.form]}", "x": 0.02, "xanchor": "left",
            "y": 0.97, "yanchor": "top", "yref": "container", "font": {"size": 12}}  # fmt: skip


def _colours(limit: float) -> dict[str, Any]:
    ends = [f"−{limit:.1f}, alike", "0", f"unlike, +{limit:.1f}"]
    bar = {"orientation": "h", "y": 0, "yanchor": "top", "ypad": 34, "thickness": 10, "len": 0.8,
           "tickvals": [-limit, 0, limit], "ticktext": ends}  # fmt: skip
    return {"colorscale": list(COLOURS), "cmin": -limit, "cmax": limit, "colorbar": bar}


def _buttons() -> dict[str, Any]:
    """Play goes on from where it stands, so there is another button for the start."""
    asked = {"play": [None, _at(MILLISECONDS, fromcurrent=True)], "pause": [[None], _at(0)],
             "from the start": [None, _at(MILLISECONDS)]}  # fmt: skip
    buttons = [{"label": name, "method": "animate", "args": args} for name, args in asked.items()]
    return {"type": "buttons", "direction": "right", "buttons": buttons, "showactive": False,
            "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 84, "t": 0},
            "font": {"size": 12}}  # fmt: skip


def _slider(shown: Scene) -> dict[str, Any]:
    steps = [{"label": str(update), "method": "animate", "args": [[str(update)], _at(0)]}
             for update in shown.updates]  # fmt: skip
    return {"steps": steps, "active": 0, "x": 0, "len": 1, "y": 1, "yanchor": "bottom",
            "pad": {"b": 26, "t": 0}, "font": {"size": 10},
            "currentvalue": {"visible": False}}  # fmt: skip


def _at(milliseconds: int, **also: object) -> dict[str, object]:
    """How long a frame is shown; it is put up at once and not moved to by degrees."""
    return {"frame": {"duration": milliseconds, "redraw": False}, "transition": {"duration": 0},
            "mode": "immediate", **also}  # fmt: skip


def still(frames: pd.DataFrame, losses: pd.DataFrame, model: str, form: str) -> Figure:
    """A few of the frames, a row each, evenly chosen with the first and the last among them."""
    shown = scene(frames, losses, model, form)
    last, count = len(shown.updates) - 1, min(STILLS, len(shown.updates))
    chosen = [shown.updates[round(at * last / max(count - 1, 1))] for at in range(count)]
    figure = Figure(figsize=(0.9 + 1.6 * shown.layers, 1.3 + 1.7 * count), layout="constrained")
    figure.suptitle(f"{model}\n{FORMS[form]}\n{KEY}", fontsize=10, parse_math=False)
    axes = figure.subplots(count, shown.layers, squeeze=False)
    for row, update in zip(axes, chosen, strict=True):
        for axis, matrix in zip(row, shown.matrices(update), strict=True):
            image = _still_map(axis, matrix, shown.limit)
        row[0].set_ylabel(shown.moment(update).replace(", ", "\n"), fontsize=9)
    for layer, axis in enumerate(axes[0], 1):
        axis.set_title(f"layer {layer}", fontsize=9)
    figure.colorbar(image, ax=axes, location="bottom", shrink=0.4, aspect=40)
    return figure


def _still_map(axis: Axes, matrix: Matrix, limit: float) -> AxesImage:
    """One matrix; its signs are marks, for a text in every cell of every matrix is slow to set."""
    cells = np.array(matrix, dtype=float)
    heads = range(len(cells))
    colours = LinearSegmentedColormap.from_list("alike to unlike", COLOURS)
    image = axis.imshow(cells, vmin=-limit, vmax=limit, cmap=colours)
    for mark, of_sign in (("_", cells < -FAINT), ("+", cells > FAINT)):
        rows, columns = np.nonzero(of_sign)
        axis.scatter(columns, rows, s=9, marker=mark, color="black", linewidths=0.7)
    every = ceil(len(cells) / LABELS)
    axis.set_xticks(heads[::every], [head + 1 for head in heads[::every]])
    axis.set_yticks(heads[::every], [head + 1 for head in heads[::every]])
    axis.tick_params(length=0, labelsize=7)
    axis.spines[:].set_visible(False)
    axis.set_facecolor(NO_VALUE)
    return image
