"""The same colour for the same thing on every page; told apart by colour-blind readers too.

Colours are of Okabe and Ito (2008) and of Paul Tol's bright and vibrant schemes, and stand out on
white and on the dark theme's near-black alike.
"""

from headbook.types import Kind

KINDS = {Kind.ENCODER: "#3b82c4", Kind.DECODER: "#e08a1e", Kind.CROSS: "#1f9e77"}
"""Kinds of attention."""

ROLES = {
    "previous token": "#aa3377",
    "next token": "#d48ac0",
    "own token": "#8a8fd6",
    "syntactic": "#2f9e44",
    "rare words": "#ee7733",
    "none": "#9a9a9a",
}
"""Roles of heads; positional, syntactic and rare ones in the families of Voita's figures."""

EVIDENCE = {
    "released": "#3b82c4",
    "trained": "#d55e00",
    "young": "#e0a100",
    "untrained": "#8c8c8c",
    "baseline": "#8c8c8c",
    "random": "#8c8c8c",
    "rule": "#1f9e77",
}
"""Kinds of models, and what they are compared with."""

MODELS = {
    "Firefox en→pt": EVIDENCE["released"],
    "Firefox pt→en": "#56b4e9",
    "MiniLM": "#aa4fa0",
    "small models": EVIDENCE["young"],
}
"""Models that stand on several pages, by the names they have in figures."""

SERIES = ("#3b82c4", "#d55e00", "#1f9e77", "#aa3377", "#e0a100", "#6f8fa8", "#8a8fd6", "#8c8c8c")
"""For things that have no colour of their own."""

SEQUENCE = "viridis"
"""Colour map of values from low to high; its lightness alone orders them."""


def colour(name: object, place: int = 0) -> str:
    """The fixed colour of this name, or the next of SERIES."""
    for fixed in (KINDS, ROLES, EVIDENCE, MODELS):
        if name in fixed:
            return fixed[name]
    return SERIES[place % len(SERIES)]
