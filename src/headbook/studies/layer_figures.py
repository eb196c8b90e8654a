"""Figures of notebook 39: information by layer, and how far representations are apart.

Lines are means over the seeds; a bar at a point goes from the lowest seed to the highest.
"""

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headbook.studies.layer_models import Task
from headbook.studies.layer_tables import (
    BINS,
    HIDDEN,
    INPUT,
    PREDICTED,
    REPLACED,
    SEEDS,
    TASKS,
    TRAINED,
    UNTRAINED,
    WHOLE,
)
from headbook.studies.results import Tables

MARKERS = "osD^vPX"


def draw_input(tables: Tables) -> Figure:
    """Mutual information with the input token, a panel a task: trained, untrained, shuffled."""
    rows = tables["information"]
    rows = rows[(rows["token"] == INPUT) & (rows["text"] == WHOLE)]
    figure = Figure(figsize=(10.2, 3.9), layout="constrained")
    axes = figure.subplots(1, len(Task), sharey=True)
    for axis, task in zip(axes, Task, strict=True):
        here = rows[rows["task"] == task]
        _line(axis, here[here["version"] == TRAINED], "nats", TRAINED, 0)
        _line(axis, here[here["version"] == UNTRAINED], "nats", UNTRAINED, 1, ls="--")
        _line(axis, here[here["version"] == TRAINED], "null_nats", "tokens shuffled", 2, ls=":")
        axis.axhline(here["entropy_nats"].max(), color="grey", lw=0.8)
        _dress(axis, str(task))
    axes[0].set(ylabel="nats", ylim=(0, None))
    _legend(figure, axes[0])
    return figure


def draw_predicted(tables: Tables) -> Figure:
    """Mutual information at the places where something is predicted, with input and prediction."""
    rows = tables["information"]
    panels = {
        (Task.LANGUAGE, WHOLE): "language model,\nevery token predicts the next",
        (Task.MASKED, REPLACED): "masked language model,\ntokens replaced by others",
        (Task.MASKED, HIDDEN): "masked language model,\ntokens hidden by the mask",
    }
    figure = Figure(figsize=(10.2, 4.2), layout="constrained")
    axes = figure.subplots(1, len(panels))
    for axis, ((task, text), title) in zip(axes, panels.items(), strict=True):
        here = rows[(rows["task"] == task) & (rows["text"] == text) & (rows["version"] == TRAINED)]
        for number, token in enumerate((PREDICTED, INPUT)):
            _line(axis, here[here["token"] == token], "nats", token, number)
        predicted = here[here["token"] == PREDICTED]
        _line(axis, predicted, "null_nats", f"{PREDICTED}, shuffled", 2, ls=":")
        _dress(axis, title)
        axis.set_ylim(0, None)
    axes[0].set_ylabel("nats")
    _legend(figure, axes[1])
    return figure


def draw_between(tables: Tables) -> Figure:
    """PWCCA distance by layer between models of two tasks, and between two seeds of one."""
    rows = tables["between"]
    figure = Figure(figsize=(9.2, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, between in zip(axes, (TASKS, SEEDS), strict=True):
        here = rows[rows["between"] == between]
        for number, (pair, own) in enumerate(here.groupby(["one", "other"], sort=False)):
            name = " and ".join(pair) if between == TASKS else f"two of {pair[0]}"
            _line(axis, own, "distance", name, number)
        if len(here):
            _line(axis, here, "shuffled", "tokens shuffled", 3, ls=":")
            axis.legend(frameon=False, fontsize=8, loc="upper left")
        _dress(axis, f"between {between}")
    axes[0].set(ylabel="PWCCA distance", ylim=(0, 1.35))
    return figure


def draw_change(tables: Tables) -> Figure:
    """How far each layer takes its input, and the dissimilarity of its heads, a line a task."""
    figure = Figure(figsize=(9.2, 4.0), layout="constrained")
    axes = figure.subplots(1, 2)
    given = (("steps", "distance", "PWCCA distance from the layer below"),
             ("heads", "dissimilarity", "output dissimilarity of its heads"))  # fmt: skip
    for axis, (name, column, label) in zip(axes, given, strict=True):
        for number, (task, own) in enumerate(tables[name].groupby("task", sort=False)):
            _line(axis, own, column, str(task), number)
        _dress(axis, "")
        axis.set_ylabel(label)
    axes[0].set_ylim(0, None)
    _legend(figure, axes[0])
    return figure


def draw_frequency(tables: Tables) -> Figure:
    """The change by layer of tokens of like frequency, a panel a task and a line a bin."""
    rows = tables["frequency"]
    figure = Figure(figsize=(10.2, 4.0), layout="constrained")
    axes = figure.subplots(1, len(Task), sharey=True)
    for axis, task in zip(axes, Task, strict=True):
        for number, name in enumerate(BINS):
            own = rows[(rows["task"] == task) & (rows["ranks"] == name)]
            if len(own):
                _line(axis, own, "distance", f"ranks {name}", number)
        _dress(axis, str(task))
    axes[0].set(ylabel="PWCCA distance from the layer below", ylim=(0, None))
    _legend(figure, axes[0])
    return figure


def _line(
    axis: Axes, rows: pd.DataFrame, column: str, name: str, number: int, ls: str = "-"
) -> None:
    colour = sns.color_palette("colorblind", len(MARKERS))[number]
    by_layer = rows.groupby("layer")[column]
    mean, low, high = by_layer.mean(), by_layer.min(), by_layer.max()
    axis.plot(mean.index, mean, marker=MARKERS[number], ms=4.5, lw=1.4, ls=ls, color=colour,
              label=name)  # fmt: skip
    axis.vlines(mean.index, low, high, color=colour, lw=1)


def _dress(axis: Axes, title: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("layer")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axis: Axes) -> None:
    handles, names = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
