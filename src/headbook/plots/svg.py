"""A figure as inline SVG: as wide as its column, text and axes in the colour of the page's text.

Figures are designed 440 units wide and scaled by the column: on a phone their text is a little
smaller than the page's, on a desk a little larger.
"""

import base64
import io
import re
from dataclasses import dataclass
from hashlib import sha256
from html import escape

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

Limits = tuple[float | int, float | int]
WIDTH = 440
UNITS_PER_INCH = 72
INK = "#010203"
"""Stands for the colour of the page's text: no other colour of a figure is this one."""
STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be searched, and takes the page's font
    "svg.hashsalt": "headbook",  # the same figure is the same file
    "font.size": 12.5,
    "axes.labelsize": 12.5,
    "axes.titlesize": 13,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "legend.fontsize": 12,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.8,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
}  # fmt: skip
LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>", re.DOTALL)
"""A style inside of a figure would hold for all others of the page."""
FONT = re.compile(r"font: ((?:[a-z0-9]+ )*)([\d.]+)px [^;\"]*")
NAMED = re.compile(r' id="|href="#|url\(#')
SHOWN = "<style>.hb-plain{display:none}.hb-drawn.hb-drawn{display:contents}</style>"
PLAIN = re.compile(r'<img class="hb-plain"[^>]*>')


@dataclass(frozen=True)
class Drawing:
    """A figure with its alternative text; notebooks and the book show it as inline SVG."""

    figure: Figure
    alt: str

    def svg(self) -> str:
        """The figure as an SVG element: no fixed size, no fixed ink, ids of its own."""
        buffer = io.StringIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        drawn = LEFT_OUT.sub("", buffer.getvalue())
        drawn = FONT.sub(r"font: \1\2px sans-serif", drawn).replace(INK, "currentColor")
        prefix = f"f{sha256(drawn.encode()).hexdigest()[:8]}-"  # several figures stand on one page
        drawn = NAMED.sub(lambda found: found[0] + prefix, drawn)
        opened, inside = drawn[drawn.index("<svg") :].split(">", 1)
        opened = re.sub(r' (width|height)="[^"]*"', "", opened)
        label = escape(self.alt)
        return (
            f'{opened} width="100%" role="img" aria-label="{label}" '
            f'style="height: auto; stroke-linejoin: round">'
            f"<title>{label}</title>{inside}"
        )

    def _repr_html_(self) -> str:
        drawn = with_plain(self.svg(), self.alt, "image/png", self._png())
        return f'<div class="headbook-figure">{drawn}</div>'

    def _png(self) -> bytes:
        """The figure as `svg` has laid it out, on white; few colours make it six times smaller."""
        drawn, small = io.BytesIO(), io.BytesIO()
        self.figure.set_layout_engine("none")
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(drawn, dpi=1.4 * UNITS_PER_INCH, facecolor="white")
        Image.open(drawn).convert("RGB").quantize(32).save(small, "PNG", optimize=True)
        return small.getvalue()


def with_plain(drawn: str, alt: str, form: str = "image/svg+xml", plain: bytes = b"") -> str:
    """HTML of a drawing, which holds an SVG element, and a plain picture in its place.

    JupyterLab leaves SVG and styles out of a notebook that it does not trust: it hides what is
    `jp-mod-hidden`, and shows the picture, which the style hides elsewhere: `plain`, or that SVG.
    """
    alone = drawn[drawn.index("<svg") : drawn.index("</svg>") + 6]
    width = float(re.search(r'viewBox="\S+ \S+ (\S+)', alone)[1])
    named = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
    coded = base64.b64encode(plain or alone.replace("<svg ", named, 1).encode()).decode()
    return (
        f'{SHOWN}<div class="hb-drawn jp-mod-hidden">{drawn}</div><img class="hb-plain" '
        f'alt="{escape(alt)}" width="{width:.0f}" style="background:#fff" '
        f'src="data:{form};base64,{coded}"/>'
    )


def without_plain(shown: str) -> str:
    """The HTML as a page of its own has it, where everything is trusted."""
    return PLAIN.sub("", shown)


def canvas(height: float | int, rows: int = 1, columns: int = 1, **options: object):
    """An empty figure of the book's width and its axes, [rows, columns]; height in units."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(
            figsize=(WIDTH / UNITS_PER_INCH, height / UNITS_PER_INCH),
            layout="constrained",
            dpi=UNITS_PER_INCH,
        )
        return figure, figure.subplots(rows, columns, squeeze=False, **options)
