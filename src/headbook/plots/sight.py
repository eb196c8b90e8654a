"""What one head sees in one sentence: in words, as arcs, as lines, as a matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from headbook.plots.marks import INK, SIZE, SMALL, Box, Line, Number, Point, Scene, Words

LEAST = 0.05
"""Weights below are not drawn as lines."""
PITCH = 24
"""Pixels from line to line of words."""
WIDEST, HIGHEST = 640, 400
"""Pixels of a drawing in a column of text."""
FEW = 3
"""Asking words whose answers are written out."""
SLANT, ACROSS, ALONG = -50, 0.64, 0.77
"""Degrees that words of long sentences are turned by, with cosine and sine."""


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

    def share(self, word: int, key: int) -> str:
        return f"{self.keys[key]} {100 * self.weights[word, key]:.0f} %"

    def title(self, word: int) -> str:
        """What a word looks at, largest weight first, and the correct answer."""
        best = np.argsort(-self.weights[word], kind="stable")[:6].tolist()
        best = [key for n, key in enumerate(best) if not n or self.weights[word, key] >= self.least]
        correct = " and ".join(self.keys[key] for key in self.answers.get(word, ()))
        looked = ", ".join(self.share(word, key) for key in best)
        return f"{self.words[word]} → {looked}" + (f"; correct: {correct}" if correct else "")

    def said(self) -> str:
        """The answers of few words, and whether they are correct; of many, how many are."""
        tops = {word: int(self.weights[word].argmax()) for word in self.asking}
        right = {word: tops[word] in self.answers[word] for word in tops if word in self.answers}
        if len(tops) > FEW:
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
        for word in self.asking if len(self.asking) <= FEW else ():
            row = self.weights[word]
            shown = row >= (2 * self.least if len(self.asking) == 1 else row.max())
            for key in (*np.flatnonzero(shown).tolist(), *self.answers.get(word, ())):
                found[key] = max(found.get(key, 0.0), row[key])
        return {key: f"{100 * weight:.0f} %" for key, weight in found.items()}

    def arcs(self, upright: bool = False) -> Scene:
        """Arcs above the words, which slant in a long sentence, or upright beside a column."""
        labels, bold = self.labels(), set(self.asking if len(self.asking) <= FEW else ())
        row = _Row.of(self.words, labels, bold, upright)
        groups: list = [("", [])]
        highest = 0.0
        for asks, word in enumerate(self.words):
            marks: list = []
            if asks in self.asking:
                for key in np.argsort(self.weights[asks]).tolist():
                    if (weight := self.weights[asks, key]) >= self.least:
                        curve = row.arc(asks, key, 6 + 3 * weight)
                        tip = row.at(row.end(asks, key), 0)
                        marks.append(Line(curve, self.colour, weight, tip))
                for key in self.answers.get(asks, ()):
                    marks.append(Line(row.arc(asks, key, 2, 6), INK, dotted=True))
                lines = [mark.points[1][not upright] for mark in marks]
                highest = max(highest, *(abs(each - row.base) * 0.75 for each in lines), 20)
            marks += row.word(asks, word, self.colour)
            groups.append((self.title(asks) if asks in self.asking else "", marks))
        return row.scene(groups, highest + 8)

    def lines(self, every: bool = False) -> Scene:
        """Lines from a column of words to a column of keys; `every` keeps those of no weight."""
        left, right = (max(map(width_of, each)) + 10 for each in (self.words, self.keys))
        far, bold = left + 110, len(self.asking) <= FEW

        def line(start: Number, end: Number) -> tuple[Point, ...]:
            middle = (left + far) / 2
            return (left, start), (middle, start), (middle, end), (far, end)

        places = [PITCH * (n + 0.5) for n in range(max(len(self.words), len(self.keys)))]
        groups: list = [
            (
                "",
                [
                    Words((far + 8, place + 5), key, "start")
                    for place, key in zip(places, self.keys, strict=False)
                ],
            )
        ]
        for asks, word in enumerate(self.words):
            marks: list = [Box((0, places[asks] - 11), (left, 22), self.colour, 0)]
            if asks in self.asking:
                for key, weight in enumerate(self.weights[asks]):
                    if every or weight >= self.least:
                        curve = line(places[asks], places[key])
                        marks.append(Line(curve, self.colour, weight * (weight >= self.least)))
                for key in self.answers.get(asks, ()):
                    marks.append(Line(line(places[asks] - 6, places[key] - 6), INK, dotted=True))
            asked = asks in self.asking
            marks.append(Words((left - 8, places[asks] + 5), word, "end", bold=asked and bold))
            groups.append((self.title(asks) if asked else "", marks))
        return Scene(far + right, PITCH * len(places) + 4, groups)

    def matrix(self) -> Scene:
        """A row per word and a column per key; a cell is as strong as its weight."""
        size = min(28, max(14, (HIGHEST - 80) / max(self.weights.shape)))
        letters = min(SIZE, size - 1)
        rows, columns = (
            [width_of(each) * letters / SIZE for each in side] for side in (self.words, self.keys)
        )
        left, top = max(rows) + 8, max(columns) * ALONG + 16
        starts = [left + size * n for n in range(len(self.keys))]
        ground = Box((left, top), (size * len(columns), size * len(rows)), INK, 0.05, round=2)
        across = zip(starts, self.keys, strict=True)
        heads = [
            Words((x + size / 2 + 3, top - 6), key, "start", letters, angle=SLANT)
            for x, key in across
        ]
        groups: list = [("", [ground, *heads])]
        for asks, word in enumerate(self.words):
            down, correct = top + size * asks, self.answers.get(asks, ())
            bold = asks in self.asking and len(self.asking) < len(self.words)
            marks: list = [Words((left - 6, down + size / 2 + 4), word, "end", letters, bold)]
            for key, weight in enumerate(self.weights[asks]):
                if weight >= 0.005 or key in correct:
                    at, title = (starts[key] + 0.5, down + 0.5), self.share(asks, key)
                    marks.append(
                        Box(
                            at,
                            (size - 1, size - 1),
                            self.colour,
                            weight,
                            key in correct,
                            f"{word} → {title}",
                            2,
                        )
                    )
            groups.append((self.title(asks), marks))
        wide = max(x + size + ACROSS * column for x, column in zip(starts, columns, strict=True))
        return Scene(wide + 4, top + size * len(rows) + 4, groups)


@dataclass(frozen=True)
class _Row:
    """Places of a sentence's words: `centre` along it, and `base`, from where arcs rise."""

    centre: Sequence[Number]
    widths: Sequence[Number]
    labels: Mapping[int, str]
    bold: set[int]
    base: Number
    upright: bool
    slanted: bool

    @classmethod
    def of(
        cls, words: Sequence[str], labels: Mapping[int, str], bold: set[int], upright: bool
    ) -> "_Row":
        widths = [width_of(word, n in bold) for n, word in enumerate(words)]
        wide = [max(width, 34 if n in labels else 0) for n, width in enumerate(widths)]
        gap = min(30.0, (WIDEST - sum(wide)) / len(words))
        slanted = not upright and gap < 12
        if upright or slanted:
            pitch = PITCH if upright else max(15.5, WIDEST / len(words))
            left = max(ACROSS * width - pitch * n for n, width in enumerate(widths)) + 30
            centre = [pitch * (n + 0.5) + (left if slanted else 0) for n in range(len(words))]
        else:
            edges = np.cumsum([0, *(width + gap for width in wide)])
            centre = list((edges[:-1] + edges[1:]) / 2)
        base = max(widths) + 16 + (36 if labels else 0) if upright else 0
        return cls(centre, widths, labels, bold, base, upright, slanted)

    def at(self, along: Number, away: Number) -> Point:
        return (self.base + away, along) if self.upright else (along, self.base - away)

    def end(self, word: int, key: int) -> Number:
        """Where the arc ends along the sentence: a little before its key."""
        return self.centre[key] + (3 * np.sign(word - key) or 8)

    def arc(self, word: int, key: int, foot: Number, more: Number = 0) -> tuple[Point, ...]:
        """From a word to a key, `foot` pixels above it; higher by `more`, and with the distance."""
        reach = 60 if self.upright else 80 if self.slanted else 110
        apart = min(1, abs(word - key) / min(len(self.centre), 10))
        high = (22 + reach * apart + more) * 4 / 3
        end, side = self.end(word, key), np.sign(key - word)
        start = self.centre[word] + (4 * side or -8)
        return self.at(start, 1), self.at(start, high), self.at(end, high), self.at(end, foot)

    def word(self, n: int, text: str, colour: str) -> list[Words | Box]:
        """A word, on colour where it is one of few that ask, and its percentage."""
        x, y = self.at(self.centre[n], 0)
        width, bold, label = self.widths[n], n in self.bold, self.labels.get(n, "")
        if self.upright:
            box = Box((x - width - 14, y - 11), (width + 10, 22), colour, 0.18 * bold)
            places = [((x - 9, y + 5), "end", 0), ((34, y + 5), "end", 0)]
        elif self.slanted:
            box = Box((x - 7, y + 2), (14, 12), colour, 0)
            far = width * 0.85 + 8
            places = [
                ((x + 4, y + 13), "end", SLANT),
                ((x + 4 - ACROSS * far, y + 13 + ALONG * far), "end", SLANT),
            ]
        else:
            box = Box((x - width / 2 - 6, y + 3), (width + 12, 24), colour, 0.18 * bold)
            places = [((x, y + 20), "middle", 0), ((x, y + 42), "middle", 0)]
        size = 13.5 if self.slanted else SIZE
        (at, anchor, angle), (beside, *_) = places
        shown = Words(at, text, anchor, size, bold, angle)
        return [box, shown, *([Words(beside, label, anchor, SMALL, False, angle)] if label else [])]

    def scene(self, groups: list, rise: Number) -> Scene:
        """The drawing, where arcs rise so many pixels: moved so that they have room."""
        last = len(self.centre) - 1
        if self.upright:
            return Scene(self.base + rise, self.centre[last] + PITCH / 2 + 4, groups)
        low = 48 if self.labels else 30
        if self.slanted:
            low = (
                ALONG
                * max(
                    self.widths[n] * 0.85 + (38 if n in self.labels else 0) for n in range(last + 1)
                )
                + 24
            )
        wide = self.centre[last] + (16 if self.slanted else self.widths[last] / 2 + 14)
        return Scene(wide, low + rise, groups, rise)


def width_of(text: str, bold: bool = False) -> Number:
    """Pixels of a word; of a script that matplotlib's font lacks, about as many."""
    font = FontProperties(size=SIZE, weight="bold" if bold else "normal")
    return max(text_to_path.get_text_width_height_descent(text, font, False)[0], 8)
