"""Figures of how far measures of a head's importance agree, and what halves of the heads cost."""

from types import MappingProxyType

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.heads.relevance_rules import Variant
from headbook.studies.importance_scores import (
    ABLATION,
    ABLATION_BLEU,
    CONFIDENCE,
    IMPORTANCE,
    RANDOM,
    RELEVANCE,
    VALID_ABLATION,
)
from headbook.studies.results import Tables

ENCODER, EVERY = "encoder", "all kinds"
"""Whose heads are compared."""
MATRIX = (*RELEVANCE.values(), CONFIDENCE, *IMPORTANCE, ABLATION, ABLATION_BLEU, RANDOM)
"""What the map shows; the last two measures only say how well ablation agrees with itself."""
FULL, LEAST_RELEVANT, MOST_RELEVANT = "none", "least relevant", "most relevant"
HALVES = MappingProxyType(
    {
        LEAST_RELEVANT: (RELEVANCE[Variant.CODE_2019], 1),
        "least relevant, signed": (RELEVANCE[Variant.SIGNED], 1),
        "least relevant, attention constant": (RELEVANCE[Variant.CONSTANT_ATTENTION], 1),
        "least important": (IMPORTANCE[0], 1),
        "least confident": (CONFIDENCE, 1),
        "least missed alone": (VALID_ABLATION, 1),
        MOST_RELEVANT: (RELEVANCE[Variant.CODE_2019], -1),
    }
)
"""What chooses the half of every encoder layer, by which measure, and from which end."""


def draw_matrices(tables: Tables) -> Figure:
    """Spearman's correlation of every two measures; bold where its interval leaves out zero."""
    rows = tables["agreement"]
    models = list(rows["model"].unique())
    figure = Figure(figsize=(14, 5.6 * len(models)), layout="constrained")
    axes = figure.subplots(len(models), 2, squeeze=False)
    for line, model in zip(axes, models, strict=True):
        for axis, scope in zip(line, (ENCODER, EVERY), strict=True):
            shown = rows[(rows["model"] == model) & (rows["scope"] == scope)]
            _matrix(axis, shown)
            axis.set_title(f"{model}\n{_named(scope)} ({shown['heads'].max()})")
    return figure


def _matrix(axis: Axes, rows: pd.DataFrame) -> None:
    """Its lower triangle: what is above the diagonal is the same again."""
    cells = rows.set_index(["second", "first"])
    below, beside = MATRIX[1:], MATRIX[:-1]
    values = cells["value"].unstack("first").reindex(index=below, columns=beside)
    hidden = np.triu(np.ones(values.shape, dtype=bool), 1)
    sns.heatmap(values, mask=hidden | values.isna().to_numpy(), cmap="vlag", vmin=-1, vmax=1,
                cbar=False, linewidths=0.5, ax=axis)  # fmt: skip
    for row, second in enumerate(below):
        for column, first in enumerate(beside[: row + 1]):
            cell = cells.loc[(second, first)]
            clear = cell["low"] > 0 or cell["high"] < 0
            axis.text(column + 0.5, row + 0.5, _signed(cell["value"], "–"), ha="center",
                      va="center", fontsize=9, weight="bold" if clear else "normal",
                      color="white" if abs(cell["value"]) > 0.7 else "black")  # fmt: skip
    axis.set(xlabel="", ylabel="")
    axis.tick_params(length=0)
    axis.set_xticks(axis.get_xticks(), beside, rotation=40, ha="right")


def with_ablation(tables: Tables) -> pd.DataFrame:
    """Every measure's correlation with the rise of the loss when the head alone is removed."""
    rows = tables["agreement"]
    touching = rows[(rows["first"] == ABLATION) | (rows["second"] == ABLATION)]
    other = touching["first"].where(touching["second"] == ABLATION, touching["second"])
    shown = ["model", "scope", "measure", "value", "low", "high"]
    return touching.assign(measure=other)[shown].reset_index(drop=True)


def draw_with_ablation(tables: Tables) -> Figure:
    """Every measure's correlation with single-head ablation, with its interval over heads."""
    rows = with_ablation(tables)
    models = list(rows["model"].unique())
    figure = Figure(figsize=(12, 3.6 * len(models)), layout="constrained")
    axes = figure.subplots(len(models), 2, squeeze=False, sharex=True, sharey=True)
    for line, model in zip(axes, models, strict=True):
        for axis, scope in zip(line, (ENCODER, EVERY), strict=True):
            shown = rows[(rows["model"] == model) & (rows["scope"] == scope)]
            heights = range(len(shown))
            axis.hlines(heights, shown["low"], shown["high"], color="#0072b2", linewidth=2)
            axis.plot(shown["value"], heights, "o", color="#0072b2")
            axis.axvline(0, color="black", linewidth=0.8)
            axis.set_yticks(heights, shown["measure"])
            axis.set(title=f"{model}, {_named(scope)}", xlim=(-1, 1), ylim=(len(shown) - 0.5, -0.5))
            axis.grid(axis="x", alpha=0.3)
            if shown["value"].isna().all():
                _say(axis, "no number")
    for axis in axes[-1]:
        axis.set_xlabel("Spearman's correlation with the loss without the head")
    return figure


def draw_joint(tables: Tables) -> Figure:
    """What halves of every encoder layer's heads cost: BLEU; loss together and one by one."""
    rows = tables["joint"].query("chosen_by != @FULL")
    models = list(rows["model"].unique())
    order = [*HALVES, RANDOM]
    figure = Figure(figsize=(12, 3.4 * len(models) + 0.4), layout="constrained")
    axes = figure.subplots(len(models), 2, squeeze=False, sharey=True)
    for (bleu, loss), model in zip(axes, models, strict=True):
        of_model = rows[rows["model"] == model]
        heights = of_model["chosen_by"].map(order.index)
        draws = of_model.groupby("chosen_by")["number"].transform("size")
        heights = heights + (of_model["number"] - (draws - 1) / 2) * 0.22
        colours = np.where(of_model["chosen_by"] == RANDOM, "#777777", "#0072b2")
        bleu.hlines(heights, of_model["low"], of_model["high"], color=colours, linewidth=2)
        bleu.scatter(of_model["difference"], heights, c=colours, zorder=3)
        bleu.axvline(0, color="black", linewidth=0.8)
        bleu.set(title=model, xlabel="BLEU less that of the whole model")
        loss.scatter(of_model["loss_added_nats"], heights, c=colours, label="together", zorder=3)
        loss.scatter(of_model["one_by_one_nats"], heights, marker="|", s=90, color="#d55e00",
                     label="sum of one by one", zorder=3)  # fmt: skip
        loss.axvline(0, color="black", linewidth=0.8)
        loss.set(title=model, xlabel="rise of the loss (nats a target token)")
        bleu.set_yticks(range(len(order)), order)
        bleu.set_ylim(len(order) - 0.5, -0.5)
        for axis in (bleu, loss):
            axis.grid(axis="x", alpha=0.3)
    figure.legend(*loss.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _signed(value: float, unknown: str) -> str:
    return f"{value:+.2f}".replace("0.", ".", 1) if value == value else unknown


def _named(scope: str) -> str:
    return "encoder heads" if scope == ENCODER else "heads of all kinds"


def _say(axis: Axes, text: str) -> None:
    axis.text(0.5, 0.5, text, ha="center", transform=axis.transAxes)
