"""Pairs of heads through training: a matrix per layer that a reader plays and stops.

Frames are tiny pictures that the page holds, so nothing is loaded from elsewhere; without a script,
and on paper, the last one of the first run stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files

import numpy as np
from jaxtyping import Float
from jinja2 import Template

from headbook.plots.picture import picture
from headbook.types import UserError

ALIKE, OPPOSED = "#d55e00", "#3b82c4"
"""Colours of negative and positive values; zero is the page's ground."""


@dataclass(frozen=True)
class Run:
    """A symmetric number per pair of heads at every frame, and the loss; NaN on the diagonal."""

    name: str
    updates: tuple[int, ...]
    values: Float[np.ndarray, "update layer head head"]
    losses: dict[int, float]  # nats per token, by update
    limit: float  # absolute value of the full colour

    def frames(self) -> list[tuple[str, str]]:
        """Of each what a reader is told, and the picture: layers beside each other."""
        found = []
        for update, layers in zip(self.updates, self.values, strict=True):
            said = f"update {update}"
            if update in self.losses:
                said += f", loss {self.losses[update]:.2f} nats per token"
            found.append((said, picture(np.hstack(layers) / self.limit, OPPOSED, ALIKE)))
        return found


@dataclass(frozen=True)
class Film:
    """HTML of several runs of one shape."""

    html: str
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        return self.html


def film(
    runs: Sequence[Run], alt: str, quantity: str = "value", ends: tuple[str, str] = ("", "")
) -> Film:
    """A film of these runs; `ends` says what the lowest and the highest values mean.

    UserError for no run and for runs of different layers or heads.
    """
    if len({run.values.shape[1:] for run in runs}) != 1:
        raise UserError("a film has runs with the same layers and heads, at least one")
    template = files("headbook.plots").joinpath("film.html").read_text("utf-8")
    frames = {"names": [run.name for run in runs], "frames": [run.frames() for run in runs]}
    name = sha256(repr(frames).encode()).hexdigest()[:8]
    return Film(
        Template(template, autoescape=True).render(
            **frames, name=f"film-{name}", alt=alt, layers=runs[0].values.shape[1],
            quantity=quantity, ends=ends, colours=(ALIKE, OPPOSED),
        ),
        alt,
    )  # fmt: skip
