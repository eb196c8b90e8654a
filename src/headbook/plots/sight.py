"""What one head sees in one sentence: in words, and as inline SVG of arcs or of lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

import numpy as np
from jaxtyping import Float
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

Number = float | int
Point = tuple[Number, Number]
INK = "currentColor"
"""The colour of the text around the drawing."""
SIZE, SMALL, LEGIBLE = 16, 13.5, 11
"""Pixels of words, of percentages, and of these where a drawing shrinks with its column."""
THIN, THICK, FAINT = 0.8, 6.0, 0.4
"""Pixels of a line of hardly any weight, those that weight 1 adds, and the least opacity."""
LEAST = 0.05
"""Weights below are not drawn as lines."""
PITCH, GAP, WIDEST = 24, 12, 640
"""Pixels from line to line, the least between the words of a line, and those of a line."""
FEW = 3
"""Asking words whose answers are written out."""


@dataclass(frozen=True)
class Scene:
    """A drawing in pixels, from `above` its zero: groups of marks, whose title says what they show
    or is empty."""

    width: Number
    height: Number
    groups: Sequence[tuple[str, Sequence[str]]]
    above: Number = 0

    def svg(self, alt: str, name: str) -> str:
        """An element in which every group with a title takes the keyboard's focus."""
        width, height = f"{self.width:.0f}", f"{self.height:.0f}"
        groups = "".join(
            (f'<g tabindex="0" role="img"><title>{escape(title)}</title>' if title else "<g>")
            + "".join(marks)
            + "</g>"
            for title, marks in self.groups
        )
        return (
            f'<svg class="{name}" style="min-width:{ceil(LEGIBLE / SMALL * self.width)}px" '
            f'width="{width}" height="{height}" font-size="{SIZE}" role="group" '
            f'viewBox="0 {-self.above:.0f} {width} {height}" aria-label="{escape(alt)}">'
            f"{groups}</svg>"
        )


@dataclass(frozen=True)
class Row:
    """Places of a sentence's words: `centre` along a line or column, and `base`, from where arcs
    rise."""

    centre: Sequence[Number]
    base: Number
    upright: bool

    def at(self, along: Number, away: Number) -> Point:
        return (self.base + away, along) if self.upright else (along, -away)

    def rise(self, apart: int) -> Number:
        """How high an arc is between words so many words apart."""
        return 22 + (60 if self.upright else 110) * min(1, apart / min(len(self.centre), 10))

    def end(self, word: int, key: int) -> Number:
        """Where the arc ends along the sentence: a little before its key."""
        return self.centre[key] + (3 * np.sign(word - key) or 8)

    def arc(self, word: int, key: int, foot: Number, more: Number = 0) -> tuple[Point, ...]:
        """From a word to a key, `foot` pixels above it, and `more` pixels higher than others."""
        high = (self.rise(abs(word - key)) + more) * 4 / 3
        start, end = self.centre[word] + (4 * np.sign(key - word) or -8), self.end(word, key)
        return self.at(start, 1), self.at(start, high), self.at(end, high), self.at(end, foot)


@dataclass(frozen=True)
class Sight:
    """Weights [word, key] of one head, the words that ask, and the correct answers of some."""

    words: Sequence[str]
    keys: Sequence[str]
    weights: Float[np.ndarray, "word key"]
    asking: Sequence[int]
    answers: Mapping[int, Sequence[int]]
    least: Number
    colour: str

    @property
    def few(self) -> bool:
        return len(self.asking) <= FEW

    def share(self, word: int, key: int) -> str:
        return f"{self.keys[key]} {100 * self.weights[word, key]:.0f} %"

    def title(self, word: int) -> str:
        """What a word looks at, largest weight first, and the correct answer; of one that does not
        ask, nothing."""
        if word not in self.asking:
            return ""
        best = np.argsort(-self.weights[word], kind="stable")[:6].tolist()
        best = [key for n, key in enumerate(best) if not n or self.weights[word, key] >= self.least]
        correct = " and ".join(self.keys[key] for key in self.answers.get(word, ()))
        looked = ", ".join(self.share(word, key) for key in best)
        return f"{self.words[word]} → {looked}" + (f"; correct: {correct}" if correct else "")

    def said(self) -> str:
        """The answers of few words, and whether they are correct; of many, how many are."""
        tops = {word: int(self.weights[word].argmax()) for word in self.asking}
        right = {word: tops[word] in self.answers[word] for word in tops if word in self.answers}
        if not self.few:
            return f"{sum(right.values())} of {len(right)} correct" if right else ""
        told = []
        for word, top in tops.items():
            correct = ", ".join(self.share(word, key) for key in self.answers.get(word, ()))
            verdict = (" ✓" if right[word] else f" ✗ (correct: {correct})") if correct else ""
            told.append(f"{self.words[word]} → {self.share(word, top)}{verdict}")
        return "; ".join(told)

    def labels(self) -> dict[int, str]:
        """Percentages beside keys: only of few asking words, where it is clear whose they are."""
        found: dict[int, Number] = {}
        for word in self.asking if self.few else ():
            row = self.weights[word]
            shown = row >= (2 * self.least if len(self.asking) == 1 else row.max())
            for key in (*np.flatnonzero(shown).tolist(), *self.answers.get(word, ())):
                found[key] = max(found.get(key, 0.0), row[key])
        return {key: f"{100 * weight:.0f} %" for key, weight in found.items()}

    def drawn(self, word: int) -> list[int]:
        """The keys that lines go to, the strongest last."""
        keys = np.argsort(self.weights[word]).tolist() if word in self.asking else []
        return [key for key in keys if self.weights[word, key] >= self.least]

    def widths(self) -> list[Number]:
        """Pixels of the words, with the percentages below them."""
        labels, bold = self.labels(), self.asking if self.few else ()
        wide = [width_of(word, n in bold) for n, word in enumerate(self.words)]
        return [max(width, 34 if n in labels else 0) for n, width in enumerate(wide)]

    def fits(self) -> bool:
        """Whether the words stand in one line."""
        return sum(self.widths()) + GAP * len(self.words) <= WIDEST

    def arcs(self, upright: bool) -> Scene:
        """Arcs above the words of a line, or beside the words of a column."""
        labels, widths, count = self.labels(), self.widths(), len(self.words)
        if upright:
            base = max(widths) + 16 + (44 if labels else 0)
            row = Row([PITCH * (n + 0.5) for n in range(count)], base, True)
        else:
            gap = min(30.0, (WIDEST - sum(widths)) / count)
            edges = np.cumsum([0, *(width + gap for width in widths)])
            row = Row(((edges[:-1] + edges[1:]) / 2).tolist(), 0, False)
        groups, far = [], 0
        for asks in range(count):
            answers = self.answers.get(asks, ()) if asks in self.asking else ()
            marks = [self._arc(row, asks, key) for key in self.drawn(asks)]
            marks += [dots(row.arc(asks, key, 2, 6)) for key in answers]
            marks += self._word(row, asks, widths[asks], labels.get(asks, ""))
            groups.append((self.title(asks), marks))
            far = max(far, *(abs(asks - key) for key in (asks, *self.drawn(asks), *answers)))
        rise = row.rise(far) + 14
        if upright:
            return Scene(base + rise, PITCH * count + 4, groups)
        wide = row.centre[-1] + widths[-1] / 2 + 14
        return Scene(wide, rise + (48 if labels else 30), groups, rise)

    def _arc(self, row: Row, asks: int, key: int) -> str:
        """With a head that ends at its key."""
        weight, half = self.weights[asks, key], 3 + 2.5 * self.weights[asks, key]
        points = row.arc(asks, key, 6 + 3 * weight)
        (x, y), across = points[3], (0, half) if row.upright else (half, 0)
        corners = (x - across[0], y - across[1]), (x + across[0], y + across[1])
        ends = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*corners, row.at(row.end(asks, key), 0)))
        head = f'points="{ends}" fill="{self.colour}" opacity="{_opacity(weight):.2f}"'
        return f'{line(points, self.colour, weight)}<polygon class="mark" {head}/>'

    def _word(self, row: Row, asks: int, width: Number, label: str) -> list[str]:
        """A word, on colour where it is one of few that ask, and its percentage."""
        x, y = row.at(row.centre[asks], 0)
        bold = self.few and asks in self.asking
        if row.upright:
            ground = box(x - width - 14, y - 11, width + 10, self.colour, bold)
            word, beside = written(x - 9, y + 5, self.words[asks], "end", bold), (42, y + 5, label)
        else:
            ground = box(x - width / 2 - 6, y + 3, width + 12, self.colour, bold)
            word, beside = written(x, y + 20, self.words[asks], "middle", bold), (x, y + 42, label)
        anchor = "end" if row.upright else "middle"
        return [ground, word, *([written(*beside, anchor, size=SMALL)] if label else [])]

    def lines(self, every: bool = False) -> Scene:
        """Lines from a column of words to a column of keys; `every` keeps those of no weight."""
        left = max(width_of(word, self.few) for word in self.words) + 10
        right = max(map(width_of, self.keys)) + 10
        far, middle = left + 110, left + 55
        places = [PITCH * (n + 0.5) for n in range(max(len(self.words), len(self.keys)))]

        def path(start: Number, end: Number) -> tuple[Point, ...]:
            return (left, start), (middle, start), (middle, end), (far, end)

        keys = zip(places, self.keys, strict=False)
        groups = [("", [written(far + 8, place + 5, key, "start") for place, key in keys])]
        for asks, word in enumerate(self.words):
            marks = [box(0, places[asks] - 11, left, self.colour, False)]
            drawn, asked = self.drawn(asks), asks in self.asking
            for key in range(len(self.keys)) if every else drawn:
                weight = self.weights[asks, key] if key in drawn else 0
                marks.append(line(path(places[asks], places[key]), self.colour, weight))
            for key in self.answers.get(asks, ()) if asked else ():
                marks.append(dots(path(places[asks] - 6, places[key] - 6)))
            marks.append(written(left - 8, places[asks] + 5, word, "end", asked and self.few))
            groups.append((self.title(asks), marks))
        return Scene(far + right, PITCH * len(places) + 4, groups)

    def matrix(self) -> Scene:
        """A row per word that asks, a column per key: a cell as strong as its weight is large."""
        left = max(width_of(word) for word in self.words) + 10
        groups = []
        for n, key in enumerate(self.keys):
            place = left + PITCH * (n + 0.5) + 5
            turned = (
                f'<g transform="rotate(-90 {place:.1f} -8)">{written(place, -8, key, "start")}</g>'
            )
            groups.append(("", [turned]))
        for row, asks in enumerate(self.asking):
            marks = [written(left - 8, PITCH * (row + 0.5) + 5, self.words[asks], "end")]
            for key, weight in enumerate(self.weights[asks]):
                place = f'x="{left + PITCH * key:.1f}" y="{PITCH * row}" width="{PITCH - 2}"'
                look = f'height="{PITCH - 2}" fill="{self.colour}" fill-opacity="{weight:.2f}"'
                right = key in self.answers.get(asks, ())
                edge = f'stroke="{INK}" stroke-opacity="{1 if right else 0.15}"'
                dotted = ' stroke-dasharray="2 2"' * right
                marks.append(
                    f'<rect class="{"gold" if right else "mark"}" {place} {look} {edge}{dotted}/>'
                )
            groups.append((self.title(asks), marks))
        above = max(map(width_of, self.keys)) + 12
        wide, high = left + PITCH * len(self.keys) + 2, PITCH * len(self.asking) + 4
        return Scene(wide, above + high, groups, above)


def written(
    x: Number, y: Number, text: str, anchor: str, bold: bool = False, size: Number = SIZE
) -> str:
    look = f' font-size="{size}"' * (size != SIZE) + ' font-weight="700"' * bold
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(text)}</text>'


def line(points: tuple[Point, ...], colour: str, weight: Number) -> str:
    """A cubic curve through four points, wider and stronger with its weight; 0 is not seen."""
    look = f'stroke="{colour}" stroke-width="{weight and THIN + THICK * weight:.2f}"'
    return (
        f'<path class="mark" d="{_curve(points)}" fill="none" {look} '
        f'opacity="{_opacity(weight):.2f}"/>'
    )


def dots(points: tuple[Point, ...]) -> str:
    look = f'stroke="{INK}" stroke-width="1.7" stroke-dasharray="0.1 4.5"'
    look += ' style="stroke-linecap:round"'  # a page's own rules do not undo it
    return f'<path class="gold" d="{_curve(points)}" fill="none" {look}/>'


def box(x: Number, y: Number, width: Number, colour: str, seen: bool) -> str:
    """The ground of a word, which the pointer can meet where it is not seen."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="23" rx="5"'
    return f'<rect {place} fill="{colour}" fill-opacity="{0.18 * seen:.2f}"/>'


def _curve(points: tuple[Point, ...]) -> str:
    start, *rest = (f"{x:.1f} {y:.1f}" for x, y in points)
    return f"M{start}C{' '.join(rest)}"


def _opacity(weight: Number) -> Number:
    return FAINT + (1 - FAINT) * weight


def width_of(text: str, bold: bool = False) -> Number:
    """Pixels of a word; of a script that matplotlib's font lacks, about as many."""
    font = FontProperties(size=SIZE, weight="bold" if bold else "normal")
    return max(text_to_path.get_text_width_height_descent(text, font, False)[0], 8)
