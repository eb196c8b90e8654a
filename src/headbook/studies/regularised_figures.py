"""Figures of notebook 36."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import seaborn as sns
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from headbook.heads.four_metrics import DISSIMILARITY
from headbook.studies.regularised_runs import CONSTANT, NONE, V
from headbook.studies.results import Tables
from headbook.training.regularising import Term

VARIANTS = (*map(str, Term), CONSTANT, V)
MARKERS = dict(zip(VARIANTS, "osv^D<>pX*", strict=True))
COLOURS = dict(zip(VARIANTS, sns.color_palette("colorblind", len(VARIANTS)), strict=True))
LINE = {"marker": "h", "color": "black"}
"""Of the base."""
LINEAR = 0.01
"""Nats a token, about 0, in which the axis of the tuning is linear."""


def _style(variant: str) -> dict[str, object]:
    if variant not in MARKERS:
        return LINE
    return {"marker": MARKERS[variant], "color": COLOURS[variant]}


def _plain(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)


def _of_tasks(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    return iter(rows.groupby("task", sort=False))


def draw_quality(tables: Tables) -> Figure:
    """Every seed's gain over the base of its seed, and the mean: nats of each task, and BLEU.

    Lines are 95 % over test sentences.
    """
    rows, sure = tables["changes"], tables["gains"].set_index(["task", "gain", "variant"])
    panels = [(task, here, "gain_nats", "nats a token gained") for task, here in _of_tasks(rows)]
    scored = rows.dropna(subset="gain_bleu")
    panels += [(task, here, "gain_bleu", "BLEU gained") for task, here in _of_tasks(scored)]
    names = [each for each in VARIANTS if each in set(rows["variant"])]
    figure = Figure(figsize=(3.4 * len(panels) + 1.8, 1.6 + 0.36 * len(names)),
                    layout="constrained")  # fmt: skip
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (task, here, column, label) in zip(axes, panels, strict=True):
        for place, name in enumerate(names):
            values = here[here["variant"] == name].sort_values("seed")[column]
            ends = sure.loc[[(task, column, name)]] if len(values) else sure.iloc[:0]
            places = place + _apart(len(values))
            axis.hlines(places, *ends.sort_values("seed")[["low", "high"]].to_numpy().T,
                        color=COLOURS[name], lw=1.4)  # fmt: skip
            axis.scatter(values, places, color=COLOURS[name], s=16,
                         label="a seed" if place == 0 else None)  # fmt: skip
            axis.scatter(values.mean(), place, marker="|", s=240, lw=2.2, color="black",
                         label="mean" if place == 0 else None)  # fmt: skip
        axis.axvline(0, color="grey", lw=0.8, ls=":")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.set(title=task, xlabel=label)
        _plain(axis)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].invert_yaxis()
    _legend_below(figure, axes[0], 2)
    return figure


def _apart(seeds: int) -> Float[np.ndarray, " seed"]:
    """Seeds of one regulariser one below the other, so that their lines are told apart."""
    return 0.22 * (np.arange(seeds) - (seeds - 1) / 2)


def draw_tuning(tables: Tables) -> Figure:
    """What every strength adds to the loss on validation text; what is chosen stands in a ring.

    Linear within LINEAR of nothing and logarithmic beyond: a strength that ruins a model would
    squeeze all others together.
    """
    quality = tables["quality"]
    first = quality[quality["seed"] == quality["seed"].min()]
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    tasks = list(_of_tasks(first))
    for axis, (task, rows) in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
        base = rows.loc[rows["variant"] == NONE, "valid_nats"].iloc[0]
        found = rows[rows["variant"] != NONE].assign(added=rows["valid_nats"] - base)
        for name, here in found.groupby("variant", sort=False):
            here = here.sort_values("strength")
            axis.plot(here["strength"], here["added"], lw=1.2, ms=6, label=name,
                      **_style(name))  # fmt: skip
        taken = found[found["chosen"]]
        axis.scatter(taken["strength"], taken["added"], s=130, facecolors="none",
                     edgecolors="black", lw=0.9, label="chosen")  # fmt: skip
        axis.axhline(0, color="black", ls="--", lw=1.0, label=NONE)
        axis.set_yscale("symlog", linthresh=LINEAR)
        axis.yaxis.set_major_formatter("{x:+g}")
        axis.set(title=task, xscale="log", xlabel="strength: λ, or the rate of DropHead")
        _plain(axis)
    figure.axes[0].set_ylabel("validation loss minus that without a regulariser,\nnats a token")
    _legend_below(figure, figure.axes[0], 4)
    return figure


def _legend_below(figure: Figure, axis: Axes, columns: int) -> None:
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns,
                  frameon=False)  # fmt: skip


def draw_bought(tables: Tables) -> Figure:
    """What each regulariser does to each term, as a share of the base's, mean over seeds.

    One task below the other: side by side they would be wider than a page.
    """
    rows = tables["terms"]
    tasks = list(_of_tasks(rows))
    names = [each for each in VARIANTS if each in set(rows["variant"])]
    figure = Figure(figsize=(8.4, len(tasks) * (2.2 + 0.3 * len(names))), layout="constrained")
    axes = figure.subplots(len(tasks), 1, squeeze=False)[:, 0]
    for axis, (task, here) in zip(axes, tasks, strict=True):
        means = here.pivot_table(index="variant", columns="term", values="value", sort=False)
        base = means.loc[NONE]
        share = (means.loc[names] - base) / base.abs()
        sns.heatmap(share, ax=axis, cmap="vlag", center=0, vmin=-1, vmax=1, annot=True, fmt="+.0%",
                    annot_kws={"size": 8}, cbar=False)  # fmt: skip
        axis.set(title=task, xlabel="term", ylabel="regulariser in the loss")
        axis.tick_params(axis="x", labelrotation=40)
        for tick in axis.get_xticklabels():
            tick.set_horizontalalignment("right")
    return figure


def draw_explained(tables: Tables) -> Figure:
    """Change of output dissimilarity against the gain in nats, a point a model."""
    tasks = list(_of_tasks(tables["changes"]))
    found = tables["explained"].query("metric == @DISSIMILARITY").set_index("task")
    figure = Figure(figsize=(9.6, 5.2), layout="constrained")
    for axis, (task, rows) in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
        for name in VARIANTS:
            here = rows[rows["variant"] == name]
            if len(here):
                axis.scatter(here[DISSIMILARITY], here["gain_nats"], s=46, label=name,
                             **_style(name))  # fmt: skip
        for line in (axis.axhline, axis.axvline):
            line(0, color="grey", lw=0.8, ls=":")
        rank = found.loc[task, "correlation"]
        axis.set(title=f"{task}: rank correlation {rank:+.2f}",
                 xlabel="change of output dissimilarity, scale-free")  # fmt: skip
        _plain(axis)
    figure.axes[0].set_ylabel("nats a token gained")
    _legend_below(figure, figure.axes[0], 4)
    return figure


def shown_without_heads(changes: pd.DataFrame) -> list[str]:
    """Of one task: the base, the best and the worst by what they gain, and the V."""
    gains = changes.groupby("variant")["gain_nats"].mean()
    names = [NONE, gains.idxmax(), gains.idxmin(), *gains.index.intersection([V])]
    return list(dict.fromkeys(names))


def draw_removed(tables: Tables) -> Figure:
    """Loss against the share of heads taken away: mean and range over orders and seeds."""
    figure = Figure(figsize=(9.6, 4.6), layout="constrained")
    tasks = list(_of_tasks(tables["removed"]))
    for axis, (task, rows) in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
        for name in shown_without_heads(tables["changes"].query("task == @task")):
            by_share = rows[rows["variant"] == name].groupby("share")["valid_nats"]
            mean, style = by_share.mean(), _style(name)
            axis.plot(mean.index, mean, label=name, **style)
            axis.fill_between(mean.index, by_share.min(), by_share.max(), color=style["color"],
                              alpha=0.12, lw=0)  # fmt: skip
        axis.set(title=task, xlabel="heads taken away")
        axis.xaxis.set_major_formatter(PercentFormatter(1.0))
        axis.legend(frameon=False)
        _plain(axis)
    figure.axes[0].set_ylabel("validation loss, nats a token")
    return figure
