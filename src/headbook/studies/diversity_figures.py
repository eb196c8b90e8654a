"""Figures of notebook 35: diversity and survival by layer, and how measures go with survival."""

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headbook.heads.four_metrics import DISSIMILARITY
from headbook.studies.ablations import KIND_NAMES
from headbook.studies.head_diversity import ALL, INSIDE, KINDS
from headbook.studies.results import Tables

SURVIVAL = "survival"
"""The share of a sweep's points that keep a head."""
TRAINED, UNTRAINED = "trained", "untrained"
MARKERS = "osD^vPX"
"""One a model."""


def draw_layers(tables: Tables) -> Figure:
    """Output dissimilarity and survival by layer, a column a kind and a line a model.

    Full lines with intervals over the heads are of trained models, dashed ones of untrained.
    """
    rows = tables["layers"]
    figure = Figure(figsize=(10.5, 6.4), layout="constrained")
    axes = figure.subplots(2, len(KINDS), sharex=True, sharey="row")
    labels = {DISSIMILARITY: DISSIMILARITY, SURVIVAL: "share of points that keep a head"}
    for line, (measure, label) in zip(axes, labels.items(), strict=True):
        for axis, kind in zip(line, KINDS, strict=True):
            _layer_lines(axis, rows[(rows["measure"] == measure) & (rows["kind"] == kind)])
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(label)
    for axis, kind in zip(axes[0], KINDS, strict=True):
        axis.set_title(KIND_NAMES[kind])
    for axis in axes[1]:
        axis.set_xlabel("layer")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, axes[0][0])
    return figure


def _layer_lines(axis: Axes, rows: pd.DataFrame) -> None:
    for number, (name, of_model) in enumerate(rows.groupby("model", sort=False)):
        look = _look(number)
        for version, here in of_model.groupby("version"):
            if version == UNTRAINED:
                axis.plot(here["layer"], here["value"], ls="--", lw=0.9, color=look["color"])
                continue
            axis.plot(here["layer"], here["value"], lw=1.5, ms=5, label=name, **look)
            axis.vlines(here["layer"], here["low"], here["high"], lw=0.8, alpha=0.5,
                        color=look["color"])  # fmt: skip


def _look(number: int) -> dict[str, object]:
    """Colour and marker of a model."""
    colours = sns.color_palette("colorblind", len(MARKERS))
    at = number % len(MARKERS)
    return {"color": colours[at], "marker": MARKERS[at]}


def _legend(figure: Figure, axis: Axes) -> None:
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)


def draw_agreement(tables: Tables) -> Figure:
    """How every measure goes with survival inside blocks; grey is what shuffled heads give."""
    rows = tables["agreement"]
    rows = rows[(rows["scope"] == INSIDE) & (rows["second"] == SURVIVAL)]
    measures = list(rows["first"].unique())
    panels = {ALL: ALL, **{str(kind): KIND_NAMES[kind] for kind in KINDS}}
    height = 1.4 + 0.5 * len(measures)
    figure = Figure(figsize=(13, height), layout="constrained")
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True)
    for axis, (kind, title) in zip(axes, panels.items(), strict=True):
        _agreement_panel(axis, rows[rows["kind"] == kind], measures)
        axis.set(title=title, xlim=(-1.05, 1.05), xlabel="Spearman's correlation")
    axes[0].set_yticks(range(len(measures)), measures)
    axes[0].set_ylim(len(measures) - 0.5, -0.5)
    _legend(figure, axes[0])
    return figure


def _agreement_panel(axis: Axes, rows: pd.DataFrame, measures: list[str]) -> None:
    models = list(rows["model"].unique())
    for place, measure in enumerate(measures):
        null = rows[rows["first"] == measure]
        axis.fill_betweenx([place - 0.4, place + 0.4], null["null_low"].min(),
                           null["null_high"].max(), color="0.9", lw=0)  # fmt: skip
    for number, name in enumerate(models):
        here, look = rows[rows["model"] == name], _look(number)
        at = here["first"].map(measures.index) + 0.6 * ((number + 0.5) / len(models) - 0.5)
        axis.hlines(at, here["low"], here["high"], color=look["color"], lw=1.2)
        axis.plot(here["value"], at, ls="", ms=5, label=name, **look)
    axis.axvline(0, color="black", lw=0.8)
    axis.spines[["top", "right"]].set_visible(False)
