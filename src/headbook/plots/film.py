"""Pairs of heads through training: a matrix per layer that a reader plays, stops and points at.

The page holds one still frame as plain SVG. Its script takes up the numbers of all frames when the
film comes into view, and only recolours cells, so nothing is loaded from elsewhere; without a
script, and on paper, the still frame stays.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files

import numpy as np
from jaxtyping import Float

from headbook.types import UserError

ALIKE, OPPOSED = "#d55e00", "#3b82c4"
"""Colours of negative and positive values; zero is the page's ground."""
SIDE, LEFT, TOP = 88, 11, 13
"""Units of a matrix and of what stands beside and above it; a panel is 100 wide."""
NUMBERED = 8
"""Heads that are numbered along an axis, at most."""


@dataclass(frozen=True)
class Run:
    """A symmetric number per pair of heads at every frame, and the loss; NaN on the diagonal."""

    name: str
    updates: tuple[int, ...]
    values: Float[np.ndarray, "update layer head head"]
    losses: dict[int, float]  # nats per token, by update
    limit: float  # absolute value of the full colour

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return self.values.shape[1], self.values.shape[2]

    def moment(self, frame: int) -> str:
        """The frame's update in words, with the loss where it was measured."""
        update = self.updates[frame]
        loss = self.losses.get(update)
        return f"update {update}" + ("" if loss is None else f", loss {loss:.2f} nats per token")


@dataclass(frozen=True)
class Film:
    """Several runs of one shape, the first one's last frame as the still picture.

    UserError for no run and for runs of different layers or heads.
    """

    runs: tuple[Run, ...]
    alt: str
    quantity: str = "value"
    ends: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        if len({run.shape for run in self.runs}) != 1:
            raise UserError("a film has runs with the same layers and heads, at least one")

    def _repr_html_(self) -> str:
        data = json.dumps([_encoded(run) for run in self.runs], separators=(",", ":"))
        first = self.runs[0]
        page = files("headbook.plots").joinpath("film.html").read_text("utf-8")
        parts = {
            "NAME": f"film-{sha256(data.encode()).hexdigest()[:8]}",
            "ALT": escape(self.alt, quote=True),
            "OPTIONS": "".join(f"<option>{escape(run.name)}</option>" for run in self.runs),
            "LAST": str(len(first.updates) - 1),
            "MOMENT": escape(first.moment(len(first.updates) - 1)),
            "MATRICES": _matrices(first, len(first.updates) - 1),
            "QUANTITY": escape(self.quantity),
            "ALIKE": ALIKE,
            "OPPOSED": OPPOSED,
            "LOW": escape(self.ends[0]),
            "HIGH": escape(self.ends[1]),
            "DATA": data.replace("</", "<\\/"),
        }
        for name, text in parts.items():
            page = page.replace(f"__{name}__", text)
        return page


def _encoded(run: Run) -> dict[str, object]:
    """The numbers of the script: hundredths of every pair, layer by layer, and the losses."""
    rows, columns = np.triu_indices(run.shape[1], 1)
    hundredths = np.rint(100 * run.values[:, :, rows, columns]).astype(int)
    return {
        "updates": list(run.updates),
        "moments": [run.moment(frame) for frame in range(len(run.updates))],
        "frames": hundredths.reshape(len(run.updates), -1).tolist(),
        "loss": [[update, round(loss, 3)] for update, loss in run.losses.items()],
        "limit": round(100 * run.limit),
    }


def _matrices(run: Run, frame: int) -> str:
    panels = (_panel(run, frame, layer) for layer in range(run.shape[0]))
    return f'<div class="film-grid">{"".join(panels)}</div>'


def _panel(run: Run, frame: int, layer: int) -> str:
    """One layer: heads in rows and columns, the first on top."""
    heads, cell = run.shape[1], SIDE / run.shape[1]
    cells = "".join(_cells(run, frame, layer, cell))
    every = -(-heads // NUMBERED)
    middles = [(head + 1, (head + 0.5) * cell) for head in range(0, heads, every)]
    labels = "".join(
        f'<text x="{LEFT - 2}" y="{TOP + at + 2:.1f}" text-anchor="end">{head}</text>'
        f'<text x="{LEFT + at:.1f}" y="{TOP + SIDE + 7}" text-anchor="middle">{head}</text>'
        for head, at in middles
    )
    return (
        f'<svg viewBox="0 0 100 110" role="img" aria-label="layer {layer + 1}">'
        f'<text class="film-layer" x="{LEFT}" y="9">layer {layer + 1}</text>{labels}'
        f'<g class="film-cells">{cells}</g></svg>'
    )


def _cells(run: Run, frame: int, layer: int, cell: float) -> Iterator[str]:
    """Squares of all pairs; `data-p` is the pair's place among the numbers of a frame."""
    heads = run.shape[1]
    rows, columns = np.triu_indices(heads, 1)
    place = {pair: at for at, pair in enumerate(zip(rows.tolist(), columns.tolist(), strict=True))}
    for head, other in np.ndindex(heads, heads):
        at = f'x="{LEFT + other * cell:.1f}" y="{TOP + head * cell:.1f}"'
        size = f'width="{cell - 0.6:.1f}" height="{cell - 0.6:.1f}"'
        if head == other:
            yield f'<rect class="film-own" {at} {size}/>'
            continue
        value = float(run.values[frame, layer, head, other])
        pair = layer * len(place) + place[min(head, other), max(head, other)]
        fill = f'fill="{ALIKE if value < 0 else OPPOSED}"'
        depth = f'fill-opacity="{min(abs(value) / run.limit, 1):.2f}"'
        yield f'<rect data-p="{pair}" {at} {size} {fill} {depth}/>'


def film(
    runs: Sequence[Run], alt: str, quantity: str = "value", ends: tuple[str, str] = ("", "")
) -> Film:
    """A film of these runs; `ends` says what the lowest and the highest values mean."""
    return Film(tuple(runs), alt, quantity, ends)
