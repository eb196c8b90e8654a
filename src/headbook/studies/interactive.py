"""Attention maps to leaf through by layer, head and sentence, offline, with a still picture beside.

The three menus of a plotly figure know nothing of each other, so each moves something of its own.
A head is one trace; its layers lie below one another and its sentences side by side on one large
sheet; the layer's menu moves the window down, the sentence's menu moves it sideways and renames the
rows, and the head's menu shows another sheet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from headbook.studies.page import Picture, display

DIGITS = 3
CONFIG = {"displayModeBar": False}
"""One of plotly's own buttons would send the figure to another host, and they cover the title."""
END = "⟨end⟩"
MARK = "#b35900"
"""Colour of marked tokens; they are bold as well."""
MENUS = {"layer": 0.0, "head": 0.25, "sentence": 0.5}
"""Where each menu stands over the map, from left to right."""


@dataclass(frozen=True)
class AttendedSentence:
    """One sentence's tokens, which of them are marked, and its weights in every layer and head."""

    tokens: tuple[str, ...]
    marked: tuple[bool, ...]
    weights: Float[Tensor, "layer head query key"]


@dataclass(frozen=True)
class AttentionMaps:
    """A few sentences of one model; the maps open at `layer` and `head`, which count from one."""

    model: str
    sentences: tuple[AttendedSentence, ...]
    layer: int
    head: int


@dataclass(frozen=True)
class Interactive:
    """A plotly figure in a notebook and in the book alike, named for a screen reader.

    Neither form carries plotly's script. A notebook draws the JSON with the renderer that plotly
    installs; the book takes the HTML and loads the script from its own folder.
    """

    figure: go.Figure
    alt: str
    name: str  # of the page's element, one a page

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        drawn = self.figure.to_html(
            full_html=False, include_plotlyjs=False, auto_play=False, div_id=self.name,
            config=CONFIG,
        )  # fmt: skip
        named = f'<div role="figure" aria-label="{escape(self.alt)}">{drawn}</div>'
        return {
            "application/vnd.plotly.v1+json": self.figure.to_plotly_json(),
            "text/html": named,
        }


def show_maps(maps: AttentionMaps, alt: str) -> None:
    """The maps with their menus, and a still picture of the head they open at."""
    display(
        Interactive(leaf_through(maps), f"{alt} Menus choose layer, head and sentence.", "maps")
    )
    display(Picture(draw_maps(maps), alt))


def leaf_through(maps: AttentionMaps) -> go.Figure:
    """The interactive figure; rows are queries, columns are keys."""
    size = max(len(sentence.tokens) for sentence in maps.sentences)
    layers, heads = maps.sentences[0].weights.shape[:2]
    figure = go.Figure([_sheet(maps, head, size) for head in range(heads)])
    names = [name for each in maps.sentences for name in _names(each, size)]
    figure.update_layout(
        template="none", width=680, height=700, margin={"l": 110, "r": 20, "t": 150, "b": 20},
        xaxis=_axis(names, _columns(0, size), "side", "top"),
        yaxis=_axis(_names(maps.sentences[0], size) * layers, _rows(maps.layer - 1, size)),
        updatemenus=list(_menus(maps, size)), annotations=list(_headings()),
    )  # fmt: skip
    return figure


def _sheet(maps: AttentionMaps, head: int, size: int) -> go.Heatmap:
    """All layers and sentences of one head; empty where a sentence is shorter than the window."""
    layers = maps.sentences[0].weights.shape[0]
    rows: list[list[float | None]] = [[] for _ in range(layers * size)]
    for sentence in maps.sentences:
        for layer in range(layers):
            block = sentence.weights[layer, head].tolist()
            for query in range(size):
                weights = block[query] if query < len(block) else []
                rounded = [round(weight, DIGITS) for weight in weights]
                rows[layer * size + query] += rounded + [None] * (size - len(rounded))
    return go.Heatmap(z=rows, zmin=0, zmax=1, colorscale="Purples", visible=head == maps.head - 1,
                      hovertemplate="weight %{z:.3f}<extra></extra>")  # fmt: skip


def _names(sentence: AttendedSentence, size: int) -> list[str]:
    """The tokens as labels, marked ones bold and coloured, filled up to the window."""
    shown = [
        f'<span style="color:{MARK}"><b>{escape(token)}</b></span>' if marked else escape(token)
        for token, marked in zip(sentence.tokens, sentence.marked, strict=True)
    ]
    return shown + [""] * (size - len(shown))


def _axis(names: list[str], window: list[float], *also: str) -> dict[str, Any]:
    return {
        "tickmode": "array", "tickvals": list(range(len(names))), "ticktext": names,
        "range": window, "fixedrange": True, "showgrid": False, "zeroline": False,
        **dict([also] if also else []),
    }  # fmt: skip


def _columns(sentence: int, size: int) -> list[float]:
    return [sentence * size - 0.5, (sentence + 1) * size - 0.5]


def _rows(layer: int, size: int) -> list[float]:
    """From the bottom up, so that the first token stands at the top."""
    return [(layer + 1) * size - 0.5, layer * size - 0.5]


def _menus(maps: AttentionMaps, size: int) -> Iterator[dict[str, Any]]:
    layers, heads = maps.sentences[0].weights.shape[:2]
    windows = [{"yaxis.range": _rows(layer, size)} for layer in range(layers)]
    yield _menu("layer", "relayout", windows, maps.layer - 1)
    sheets = [{"visible": [head == shown for head in range(heads)]} for shown in range(heads)]
    yield _menu("head", "restyle", sheets, maps.head - 1)
    places = [
        {"xaxis.range": _columns(at, size), "yaxis.ticktext": _names(sentence, size) * layers}
        for at, sentence in enumerate(maps.sentences)
    ]
    yield _menu("sentence", "relayout", places, 0)


def _menu(what: str, method: str, changes: list[dict[str, Any]], active: int) -> dict[str, Any]:
    buttons = [
        {"label": f"{what} {number}", "method": method, "args": [change]}
        for number, change in enumerate(changes, 1)
    ]
    return {"buttons": buttons, "active": active, "x": MENUS[what], "y": 1.28, "xanchor": "left",
            "yanchor": "top", "showactive": True}  # fmt: skip


def _headings() -> Iterator[dict[str, Any]]:
    """Titles of the axes, drawn as notes: the labels above leave no room for a title."""
    yield {"text": "rows: the token that asks; columns: what it looks at", "showarrow": False,
           "xref": "paper", "yref": "paper", "x": 1, "y": 1.28, "xanchor": "right",
           "yanchor": "bottom", "font": {"size": 11}}  # fmt: skip


def draw_maps(maps: AttentionMaps) -> Figure:
    """The head the maps open at, for every sentence (Voita et al. 2019, Figure 5)."""
    figure = Figure(figsize=(4.6 * len(maps.sentences), 4.6), layout="constrained")
    figure.suptitle(f"{maps.model}: layer {maps.layer}, head {maps.head}")
    for axis, sentence in zip(
        figure.subplots(1, len(maps.sentences), squeeze=False)[0], maps.sentences, strict=True
    ):
        _still(axis, sentence, maps.layer - 1, maps.head - 1)
    return figure


def _still(axis: Axes, sentence: AttendedSentence, layer: int, head: int) -> None:
    axis.imshow(sentence.weights[layer, head].numpy(), cmap="Purples", vmin=0, vmax=1)
    places = range(len(sentence.tokens))
    axis.set(xlabel="what it looks at", ylabel="the token that asks")
    axis.set_xticks(places, sentence.tokens, rotation=90, fontsize=8, parse_math=False)
    axis.set_yticks(places, sentence.tokens, fontsize=8, parse_math=False)
    axis.tick_params(length=0)
    for label, marked in zip(axis.get_xticklabels(), sentence.marked, strict=True):
        label.set(color=MARK if marked else "black", weight="bold" if marked else "normal")
