"""The same colour for the same thing on every page; told apart by colour-blind readers too.

Colours are of Okabe and Ito (2008) and of Paul Tol's bright and vibrant schemes, and stand out on
white and on the dark theme's near-black alike.
"""

COLOURS = {
    # kinds of attention
    "encoder": "#3b82c4",
    "decoder": "#e08a1e",
    "cross": "#1f9e77",
    # roles of heads; positional, syntactic and rare ones in the families of Voita's figures
    "previous token": "#aa3377",
    "next token": "#d48ac0",
    "own token": "#8a8fd6",
    "syntactic": "#2f9e44",
    "rare words": "#ee7733",
    "none": "#9a9a9a",
    # models, and what they are compared with
    "released": "#3b82c4",
    "trained": "#d55e00",
    "untrained": "#8c8c8c",
    "baseline": "#8c8c8c",
    "random": "#8c8c8c",
    "rule": "#1f9e77",
}
"""Of things that stand on several pages, by the names they have in figures."""

SERIES = ("#3b82c4", "#d55e00", "#1f9e77", "#aa3377", "#e0a100", "#6f8fa8", "#8a8fd6", "#8c8c8c")
"""For things that have no colour of their own."""

SEQUENCE = "viridis"
"""Colour map of values from low to high; its lightness alone orders them."""


def colour(name: object, place: int = 0) -> str:
    """The fixed colour of this name, or the next of SERIES."""
    return COLOURS.get(name, SERIES[place % len(SERIES)])
