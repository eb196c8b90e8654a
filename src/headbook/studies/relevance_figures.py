"""Figures of relevance: maps of heads sorted by it, its height by layer, how few heads dominate."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.heads.relevance_rules import Variant
from headbook.heads.roles import DRAWING_ORDER
from headbook.studies.results import Tables
from headbook.studies.role_maps import ROLE_COLOURS, short
from headbook.types import Kind

BEST, UNTRAINED = "best", "untrained"
KIND_COLOURS = {Kind.ENCODER: "#0072b2", Kind.DECODER: "#e69f00", Kind.CROSS: "#cc79a7"}
KIND_NAMES = {
    Kind.ENCODER: "encoder self-attention",
    Kind.DECODER: "decoder self-attention",
    Kind.CROSS: "cross-attention",
}
VARIANT_NAMES = {
    Variant.SIGNED: "signed ratio (the paper's)",
    Variant.CODE_2019: "positive weights (the code's)",
    Variant.CONSTANT_ATTENTION: "attention held constant",
}
MARKERS = dict(zip(Kind, "osD", strict=True))


def draw_maps(tables: Tables) -> Figure:
    """Figures 1a, 1b and 1c: each layer's encoder heads, the most relevant first.

    A cell names its head: relevance in the layer, confidence, and the role it has or, where it has
    none, how near it comes to one.
    """
    models = list(tables["encoder"].groupby("model", sort=False))
    layers = int(tables["encoder"]["layer"].max())
    figure = Figure(figsize=(14, (1.2 + 0.52 * layers) * len(models)), layout="constrained")
    parts = np.atleast_1d(figure.subfigures(len(models), 1))
    for part, (name, of_model) in zip(parts, models, strict=True):
        part.suptitle(name, fontweight="bold")
        relevance, confidence, roles = part.subplots(1, 3)
        even = 1 / of_model["head"].max()
        top = max(2 * even, of_model["relevance"].max())
        held = tables["roles"].query("model == @name")
        _sorted_map(relevance, of_model, "relevance", top)
        relevance.set_title("relevance in its layer")
        _sorted_map(confidence, of_model, "confidence", 1.0)
        confidence.set_title("confidence")
        _sorted_map(roles, of_model, "nearness", 2.0, held)
        roles.set_title("role, or nearness to one")
    return figure


def _sorted_map(
    axis: Axes, scores: pd.DataFrame, column: str, top: float, roles: pd.DataFrame | None = None
) -> None:
    """A score of every head, and the role instead where it has one, in its colour."""
    notes = scores.set_index(["layer", "head"])[column].map(_number)
    ranks = scores.set_index(["layer", "head"])["rank"]
    for (layer, head), held in () if roles is None else roles.groupby(["layer", "head"]):
        first = next(role for role in DRAWING_ORDER if role in set(held["role"]))
        right, notes[layer, head] = ranks[layer, head], _label(held)
        axis.fill_between([right - 0.97, right - 0.03], layer - 0.97, layer - 0.03,
                          color=ROLE_COLOURS[first], zorder=2)  # fmt: skip
    noted = [f"h{head}\n{note}" for (_, head), note in notes.items()]
    written = scores.assign(note=noted).pivot(index="layer", columns="rank", values="note")
    values = scores.pivot(index="layer", columns="rank", values=column)
    colours = sns.light_palette("#8e6bb3" if roles is None else "#999999", as_cmap=True)
    sns.heatmap(values, annot=written.where(values.notna(), ""), fmt="", cmap=colours, vmin=0,
                vmax=top, cbar=False, linewidths=0.5, ax=axis,
                annot_kws={"size": 7.5 if roles is None else 6.8, "color": "black"})  # fmt: skip
    axis.set(xlabel="rank of relevance in the layer", ylabel="layer")
    axis.tick_params(length=0)
    if values.isna().all(axis=None):
        axis.text(0.5, 0.5, "no number", ha="center", transform=axis.transAxes)


def _label(held: pd.DataFrame) -> str:
    """A role on two lines; several as one of them and how many more there are."""
    names = [short(detail) for detail in held["detail"]]
    return names[0].replace(" ", "\n") if len(names) == 1 else f"{names[0]}\n+{len(names) - 1} more"


def _number(value: float) -> str:
    return f"{value:.2f}".replace("0.", ".", 1) if value == value else "–"


def draw_kinds(tables: Tables) -> Figure:
    """Relevance in the layer of every head of the three kinds, by the claims' variant."""
    rows = tables["heads"].query("update == @BEST and variant == @Variant.CODE_2019")
    models = list(rows.groupby("model", sort=False))
    layers = int(rows["layer"].max())
    figure = Figure(figsize=(13, (1.3 + 0.38 * layers) * len(models)), layout="constrained")
    axes = figure.subplots(len(models), len(Kind), squeeze=False)
    colours = sns.light_palette("#8e6bb3", as_cmap=True)
    for line, (name, of_model) in zip(axes, models, strict=True):
        even = 1 / of_model["head"].max()
        for axis, kind in zip(line, Kind, strict=True):
            of_kind = of_model[of_model["kind"] == kind]
            values = of_kind.pivot(index="layer", columns="head", values="part")
            sns.heatmap(values, annot=values.map(_number), fmt="", cmap=colours, vmin=0,
                        vmax=max(2 * even, of_model["part"].max()), cbar=False, linewidths=0.5,
                        ax=axis, annot_kws={"size": 8, "color": "black"})  # fmt: skip
            axis.set(title=f"{name}\n{KIND_NAMES[kind]}", xlabel="head", ylabel="layer")
            axis.tick_params(length=0)
    return figure


def draw_layers(tables: Tables) -> Figure:
    """The share of a prediction that the heads of each block hold together, with its sign."""
    rows = tables["layers"].query("update == @BEST")
    models = list(rows.groupby("model", sort=False))
    figure = Figure(figsize=(13, 3.2 * len(models) + 0.4), layout="constrained")
    axes = figure.subplots(len(models), len(Variant), squeeze=False)
    for line, (name, of_model) in zip(axes, models, strict=True):
        for axis, variant in zip(line, Variant, strict=True):
            of_variant = of_model[of_model["variant"] == variant]
            for kind, shown, label in _lines(of_variant):
                _line(axis, shown, "share", KIND_COLOURS[kind], label, MARKERS[kind])
            axis.axhline(0, color="black", linewidth=0.6)
            axis.set(title=f"{name}\n{VARIANT_NAMES[variant]}", xlabel="layer",
                     ylabel="share of the prediction")  # fmt: skip
            _plain(axis, of_variant)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _lines(rows: pd.DataFrame) -> Iterator[tuple[Kind, pd.DataFrame, str]]:
    for kind in Kind:
        yield kind, rows[rows["kind"] == kind].sort_values("layer"), KIND_NAMES[kind]


def draw_dominance(tables: Tables) -> Figure:
    """The most relevant encoder head of each layer over an even part, trained and untrained."""
    rows = tables["layers"].query("kind == 'encoder' and variant == @Variant.CODE_2019")
    models = list(rows.groupby("model", sort=False))
    figure = Figure(figsize=(max(6.5, 4.2 * len(models)), 4.0), layout="constrained")
    axes = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for axis, (name, of_model) in zip(axes, models, strict=True):
        for update, colour, marker in ((BEST, "#0072b2", "o"), (UNTRAINED, "#777777", "s")):
            shown = of_model[of_model["update"] == update].sort_values("layer")
            label = "trained" if update == BEST else "untrained"
            _line(axis, shown, "largest", colour, label, marker)
        axis.axhline(1, color="black", linewidth=0.8, linestyle=":", label="all heads alike")
        axis.set(title=name, xlabel="layer", ylabel="largest part × number of heads")
        _plain(axis, of_model)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _line(
    axis: Axes, rows: pd.DataFrame, column: str, colour: str, label: str, marker: str
) -> None:
    value = rows[column].to_numpy()
    axis.plot(rows["layer"], value, color=colour, marker=marker, label=label)
    axis.fill_between(rows["layer"], rows[f"{column}_low"], rows[f"{column}_high"],
                      color=colour, alpha=0.2, linewidth=0)  # fmt: skip


def _plain(axis: Axes, rows: pd.DataFrame) -> None:
    axis.set_xticks(sorted(rows["layer"].unique()))
    axis.spines[["top", "right"]].set_visible(False)
