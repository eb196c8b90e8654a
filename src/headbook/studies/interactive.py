"""Figures with menus or buttons that work offline, in a notebook and in the book."""

from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go

CONFIG = {"displayModeBar": False}
"""One of plotly's own buttons would send the figure to another host, and they cover the title."""


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
