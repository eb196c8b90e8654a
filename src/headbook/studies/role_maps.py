"""The map of roles, Figures 1c and 2 of Voita et al. 2019: one cell a head, by layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.heads.roles import DRAWING_ORDER, Role

ROLE_COLOURS = {Role.POSITIONAL: "#8e6bb3", Role.SYNTACTIC: "#4f9d69", Role.RARE: "#e08e45"}
"""The paper's purple, green and orange; each cell is labelled as well."""
MOST_LABELS = 3
"""Roles written in one cell; a line says how many more there are."""
IN_A_ROW = 2


@dataclass(frozen=True)
class RoleMap:
    """One model's map: how many layers and heads, and its roles (layer, head, role, detail)."""

    title: str
    shape: tuple[int, int]
    roles: pd.DataFrame


def draw_role_maps(maps: Sequence[RoleMap]) -> Figure:
    """The maps side by side, two in a row."""
    columns, rows = min(len(maps), IN_A_ROW), -(-len(maps) // IN_A_ROW)
    tallest, widest = (max(sizes) for sizes in zip(*(each.shape for each in maps), strict=True))
    # Maps without any role need no room for labels.
    height = 0.14 if all(each.roles.empty for each in maps) else 0.5
    size = (max(4.0, 0.9 + 0.6 * widest) * columns, (1.1 + height * tallest) * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, each in zip(axes, maps, strict=False):
        role_map(axis, each)
    for axis in axes[len(maps) :]:
        axis.axis("off")
    return figure


def role_map(axis: Axes, drawn: RoleMap) -> None:
    """A coloured and labelled cell for every head with a role; white for a head without."""
    layers, heads = drawn.shape
    axis.set(xlim=(0.5, heads + 0.5), ylim=(layers + 0.5, 0.5), title=drawn.title, xlabel="head",
             ylabel="layer", xticks=range(1, heads + 1), yticks=range(1, layers + 1))  # fmt: skip
    axis.tick_params(length=0)
    for (layer, head), held in drawn.roles.groupby(["layer", "head"]):
        first = next(role for role in DRAWING_ORDER if role in set(held["role"]))
        axis.fill_between([head - 0.48, head + 0.48], layer - 0.46, layer + 0.46,
                          color=ROLE_COLOURS[first])  # fmt: skip
        axis.text(head, layer, _label(held), ha="center", va="center", fontsize=8)
    if drawn.roles.empty:
        axis.text((heads + 1) / 2, (layers + 1) / 2, "no head reaches a threshold", ha="center")


def _label(held: pd.DataFrame) -> str:
    shown = [short(detail) for detail in held["detail"]]
    more = len(shown) - MOST_LABELS
    return "\n".join(shown if more <= 0 else [*shown[: MOST_LABELS - 1], f"and {more + 1}"])


def short(detail: str) -> str:
    """`nsubj head_to_dependent` as `nsubj h→d`."""
    return (
        detail.replace("head_to_dependent", "h→d")
        .replace("dependent_to_head", "d→h")
        .replace("one of two rarest", "rare")
    )
