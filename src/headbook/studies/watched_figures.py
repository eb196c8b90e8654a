"""Figures of diversity through training, for the pages of both settings."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headbook.heads.four_metrics import ARTICLE, ATTENTION, DISSIMILARITY, FREE, RAW
from headbook.studies.diversity_watched import column, variance
from headbook.studies.pruned_figures import span
from headbook.studies.results import Tables
from headbook.studies.training_claims import ends

MARKERS = "osv^DPX*"


def draw_metrics(tables: Tables) -> Figure:
    """The four metrics through the first model's training, a line a layer; raw and scale-free."""
    looks = _first(tables["looks"])
    figure = Figure(figsize=(9.6, 11.0), layout="constrained")
    for row, metric in zip(figure.subplots(len(ARTICLE), 2), ARTICLE, strict=True):
        for axis, form in zip(row, (RAW, FREE), strict=True):
            _lines(axis, looks, column(metric, form))
            # The article draws the products and the variance of weights as logarithms.
            if form == RAW and metric != DISSIMILARITY:
                axis.set_yscale("log")
            axis.set(title=f"{metric}, {form}", xlabel="updates")
    figure.suptitle(str(looks["model"].iloc[0]))
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=6, frameon=False)
    return figure


def _first(looks: pd.DataFrame) -> pd.DataFrame:
    return looks[looks["model"] == looks["model"].iloc[0]]


def _layers(looks: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame, tuple, str]]:
    """Every layer with its rows, colour and marker: bright at the bottom, dark at the top."""
    layers = sorted(looks["layer"].unique())
    colours = sns.color_palette("viridis_r", len(layers))
    for number, layer in enumerate(layers):
        marker = MARKERS[number % len(MARKERS)]
        yield layer, looks[looks["layer"] == layer], colours[number], marker


def _lines(axis: Axes, looks: pd.DataFrame, name: str) -> None:
    for layer, rows, colour, marker in _layers(looks):
        axis.plot(rows["update"], rows[name], color=colour, marker=marker, ms=3.5, lw=1.2,
                  markevery=max(1, len(rows) // 12), label=f"layer {layer}")  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)


def draw_bands(tables: Tables) -> Figure:
    """Output dissimilarity: mean over pairs of heads and one standard deviation, by layer."""
    looks = _first(tables["looks"])
    layers = list(_layers(looks))
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.7 * rows + 0.6), layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for axis, (layer, here, _, _) in zip(axes, layers, strict=False):
        for form, colour, style in ((RAW, "#1f5a92", "-"), (FREE, "#d9822b", "--")):
            _band(axis, here, form, colour, style)
        axis.axhline(0, color="grey", lw=0.8, ls=":")
        axis.set(title=f"layer {layer}", xlabel="updates")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(layers) :]:
        axis.axis("off")
    figure.supylabel("output dissimilarity")
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _band(axis: Axes, rows: pd.DataFrame, form: str, colour: str, style: str) -> None:
    mean = rows[column(DISSIMILARITY, form)]
    spread = np.sqrt(rows[variance(DISSIMILARITY, form)].fillna(0))
    label = {RAW: "slices behind the projection, raw", FREE: "true outputs of heads"}[form]
    axis.plot(rows["update"], mean, color=colour, ls=style, lw=1.4, label=label)
    axis.fill_between(rows["update"], mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)


def draw_last(tables: Tables) -> Figure:
    """Output dissimilarity by layer at the end of training, every model, raw and scale-free."""
    looks = tables["looks"]
    models = list(looks["model"].unique())
    figure = Figure(figsize=(10.2, 3.9 + 0.17 * len(models)), layout="constrained")
    axes = figure.subplots(1, 2)
    for axis, form in zip(axes, (RAW, FREE), strict=True):
        for number, name in enumerate(models):
            last = ends(looks[looks["model"] == name], column(DISSIMILARITY, form))[1]
            axis.plot(last.index, last, marker=MARKERS[number % len(MARKERS)], ms=4.5, lw=1.1,
                      color=f"C{number}", ls="-" if number < len(MARKERS) else "--",
                      label=name)  # fmt: skip
        axis.axhline(0, color="grey", lw=0.8, ls=":")
        axis.set(xlabel="layer", title=f"output dissimilarity, {form}")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.spines[["top", "right"]].set_visible(False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def draw_losses(tables: Tables) -> Figure:
    """The loss of the batch behind every look."""
    losses = tables["losses"]
    models = list(losses["model"].unique())
    figure = Figure(figsize=(8.6, 3.8 + 0.17 * len(models)), layout="constrained")
    axis = figure.subplots()
    for number, name in enumerate(models):
        rows = losses[losses["model"] == name]
        axis.plot(rows["update"], rows["loss_nats"], lw=1.1, color=f"C{number}", ms=4,
                  marker=MARKERS[number % len(MARKERS)], markevery=max(1, len(rows) // 12),
                  label=name)  # fmt: skip
    axis.set(xlabel="updates", ylabel="loss of the batch, nats a token")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2,
                  frameon=False, fontsize=8)  # fmt: skip
    return figure


def attention_ratio(looks: pd.DataFrame) -> pd.Series:
    """Last over first of raw attention diversity, by layer, mean over the models."""
    name = column(ATTENTION, RAW)
    of_models = [ends(rows, name) for _, rows in looks.groupby("model", sort=False)]
    return pd.concat([last / first for first, last in of_models], axis=1).mean(axis=1)


def dissimilarity_sentence(looks: pd.DataFrame) -> str:
    """How far apart heads are at the end, in both forms."""
    found = {
        form: pd.concat([ends(rows, column(DISSIMILARITY, form))[1]
                         for _, rows in looks.groupby("model")])
        for form in (RAW, FREE)
    }  # fmt: skip
    return (
        f"At the end output dissimilarity lies at {span(found[RAW], '+.2f')} on slices behind "
        f"the projection and at {span(found[FREE], '+.2f')} on the heads' own outputs."
    )
