"""Lines, boxes and words of a drawing, which becomes inline SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil
from typing import NamedTuple

Number = float | int
Point = tuple[Number, Number]
INK = "currentColor"
"""The colour of the text around the drawing."""
SIZE, SMALL = 16, 13.5
"""Pixels of words and of percentages."""
LEGIBLE = 11
"""Pixels of the smallest words where a drawing shrinks with its column."""
THIN, THICK, FAINT = 0.8, 6.0, 0.4
"""Pixels of a line of hardly any weight, those that weight 1 adds, and the least opacity."""


class Words(NamedTuple):
    """A text beside `at`, turned by an angle in degrees."""

    at: Point
    text: str
    anchor: str = "middle"
    size: Number = SIZE
    bold: bool = False
    angle: Number = 0

    def svg(self) -> str:
        x, y = self.at
        turned = f' transform="rotate({self.angle} {x:.1f} {y:.1f})"' if self.angle else ""
        size = f' font-size="{self.size}"' if self.size != SIZE else ""
        bold = ' font-weight="700"' if self.bold else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{self.anchor}"'
        return f"<text {place}{size}{bold}{turned}>{escape(self.text)}</text>"


class Line(NamedTuple):
    """A cubic curve through four points, wider and stronger with its weight; 0 is not seen.

    `arrow` is where its head ends. A dotted line has neither weight nor head.
    """

    points: tuple[Point, Point, Point, Point]
    colour: str
    weight: Number = 0
    arrow: Point | None = None
    dotted: bool = False

    @property
    def width(self) -> Number:
        return 1.7 if self.dotted else self.weight and THIN + THICK * self.weight

    @property
    def opacity(self) -> Number:
        return 1 if self.dotted else FAINT + (1 - FAINT) * self.weight

    def head(self) -> list[Point]:
        (x, y), (end_x, end_y) = self.points[3], self.arrow or self.points[3]
        half = 2.5 + 0.75 * self.width
        across = (half, 0) if x == end_x else (0, half)
        return [(x - across[0], y - across[1]), (x + across[0], y + across[1]), (end_x, end_y)]

    def svg(self) -> str:
        start, *rest = (f"{x:.1f} {y:.1f}" for x, y in self.points)
        stroke = f'stroke="{self.colour}" stroke-width="{self.width:.2f}"'
        dots = ' class="gold" stroke-dasharray="0.1 4.5"' if self.dotted else ' class="mark"'
        drawn = (
            f'<path{dots} d="M{start}C{" ".join(rest)}" fill="none" {stroke} '
            f'stroke-linecap="{"round" if self.dotted else "butt"}" opacity="{self.opacity:.2f}"/>'
        )
        if self.arrow:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.head())
            drawn += (
                f'<polygon class="mark" points="{points}" fill="{self.colour}" '
                f'opacity="{self.opacity:.2f}"/>'
            )
        return drawn


class Box(NamedTuple):
    """A rectangle from its upper left corner; with an outline and a title of its own, if any."""

    at: Point
    size: Point
    colour: str
    opacity: Number
    outlined: bool = False
    title: str = ""
    round: Number = 5

    def svg(self) -> str:
        (x, y), (width, height) = self.at, self.size
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        edge = f' stroke="{INK}" stroke-width="1.7" stroke-dasharray="0.1 4" stroke-linecap="round"'
        looks = f'rx="{self.round}" fill="{self.colour}" fill-opacity="{self.opacity:.2f}"'
        title = f"<title>{escape(self.title)}</title>" if self.title else ""
        return f"<rect {place} {looks}{edge if self.outlined else ''}>{title}</rect>"


@dataclass(frozen=True)
class Scene:
    """A drawing in pixels, from `above` its zero: groups of marks, whose title says what they show
    or is empty."""

    width: Number
    height: Number
    groups: Sequence[tuple[str, Sequence[Words | Line | Box]]]
    above: Number = 0

    @property
    def shrunk(self) -> Number:
        """The width at which the smallest words are as small as can be read."""
        sizes = [m.size for _, marks in self.groups for m in marks if isinstance(m, Words)]
        return min(1, LEGIBLE / min(sizes)) * self.width

    def svg(self, alt: str, name: str) -> str:
        """An element in which every group with a title takes the keyboard's focus."""
        size = f"{self.width:.0f}", f"{self.height:.0f}"
        smallest = f'style="min-width:{ceil(self.shrunk)}px"'
        groups = "".join(
            (f'<g tabindex="0" role="img"><title>{escape(title)}</title>' if title else "<g>")
            + "".join(mark.svg() for mark in marks)
            + "</g>"
            for title, marks in self.groups
        )
        return (
            f'<svg class="{name}" {smallest} width="{size[0]}" height="{size[1]}" '
            f'font-size="{SIZE}" viewBox="0 {-self.above:.0f} {size[0]} {size[1]}" role="group" '
            f'aria-label="{escape(alt, quote=True)}">{groups}</svg>'
        )
