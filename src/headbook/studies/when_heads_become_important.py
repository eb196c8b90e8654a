"""Notebook 23: pruning by importance through training (Michel et al. 2019, Figure 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.artefacts.model import TrainedModel, trained
from headbook.pruning.ranking import ascending
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.profile import Pruning
from headbook.studies.pruning_curves import (
    Curve,
    Replicates,
    Scored,
    averaged,
    curve,
    curve_rows,
    interval,
    mean_kept,
    prunable,
    score,
)
from headbook.studies.pruning_orders import Order, heads_of, importances, random_orders
from headbook.studies.results import Tables

STUDY = "23_when_heads_become_important"
TRANSLATES = 1.0
"""BLEU from which a checkpoint is pruned: below it there is nothing to keep."""
LEAST = (0.85, 0.9)
"""Of a checkpoint's own BLEU: where the work reads off how much can be pruned."""
BEST = "best"
ORDERS = {Order.POSITION: "-", Order.RANDOM: ":"}
SHADES = (0.15, 1.0)
"""Dark for the last checkpoint; the palest yellow could not be seen on white."""
LEAST_STYLE = {0.85: ("#0072b2", "o"), 0.9: ("#d55e00", "s")}


@dataclass(frozen=True)
class Checkpoint:
    """The model kept at one update (None: the best), its curves and what their masks translate.

    There is no curve where it does not translate yet.
    """

    update: int | None
    at: int
    curves: tuple[Curve, ...]
    scored: Scored

    @property
    def name(self) -> str:
        return BEST if self.update is None else str(self.update)

    @property
    def bleu(self) -> float:
        return float(self.scored.bleu[self.scored.full])

    def prunable(self, least: float, order: str = Order.POSITION) -> Replicates:
        """The share prunable in that order at so much of this checkpoint's own BLEU."""
        measure = partial(prunable, scored=self.scored, least=least)
        return averaged(measure, self.curves, order)

    def kept(self, order: str) -> Replicates:
        return averaged(partial(mean_kept, scored=self.scored), self.curves, order)


def compute(config: Config, store: Store | None = None) -> Tables:
    """Curves, mean BLEU kept and prunable share of every checkpoint of the first model."""
    store = store or Store.default()
    model = trained(config.examined_models()[0], store)
    labels, found = model_labels(model), list(_checkpoints(model, config.preset.pruning, store))
    pruned = [each for each in found if each.curves]
    return {
        "checkpoints": pd.DataFrame([_summary(each) for each in found]).assign(**labels),
        "curves": stacked(
            curve_rows(each.curves, each.scored).assign(update=each.name, at_update=each.at)
            for each in pruned
        ).assign(**labels),
        "prunable": pd.DataFrame([row for each in pruned for row in _prunable(each)]).assign(
            **labels
        ),
        "claims": pd.DataFrame(list(_claims(labels, pruned))),
    }


def _checkpoints(model: TrainedModel, preset: Pruning, store: Store) -> Iterator[Checkpoint]:
    """Those kept on the way, in order, then the best one; it is not looked at twice."""
    losses = model.curve.set_index("update")["valid_loss_nats"]
    best = int(losses.idxmin())
    ways = [(update, update) for update in model.snapshots if update != best]
    for update, at in [*ways, (None, best)]:
        whole = score(model, (), preset.translated, store, update)
        found = Checkpoint(update, at, (), whole)
        if update is None or found.bleu >= TRANSLATES:
            curves = tuple(_curves(model, update, preset, store))
            scored = score(model, curves, preset.translated, store, update)
            found = Checkpoint(update, at, curves, scored)
        yield found


def _curves(
    model: TrainedModel, update: int | None, preset: Pruning, store: Store
) -> Iterator[Curve]:
    """By the checkpoint's own importance, and in one random order, the same at all of them."""
    scores = importances(model, preset.examined, store, update=update)
    yield curve(ascending(scores), preset.levels, Order.POSITION)
    for order in random_orders(heads_of(model), 1):
        yield curve(order, preset.levels, Order.RANDOM)


def _summary(each: Checkpoint) -> dict[str, object]:
    """One row: BLEU, mean BLEU kept in both orders, and how far importance is above random."""
    row = {"update": each.name, "at_update": each.at, "bleu": each.bleu,
           "pruned": bool(each.curves)}  # fmt: skip
    if not each.curves:
        return row
    by_importance, by_chance = each.kept(Order.POSITION), each.kept(Order.RANDOM)
    above = interval(by_importance - by_chance)
    return row | {
        "kept": float(by_importance[0]),
        "kept_random": float(by_chance[0]),
        **dict(zip(("above_random", "above_low", "above_high"), above, strict=True)),
    }


def _prunable(each: Checkpoint) -> Iterator[dict[str, object]]:
    for order in ORDERS:
        for least in LEAST:
            share, low, high = interval(each.prunable(least, order))
            yield {"update": each.name, "at_update": each.at, "order": str(order),
                   "least": least, "share": share, "low": low, "high": high}  # fmt: skip


def _claims(labels: dict[str, object], pruned: list[Checkpoint]) -> Iterator[dict[str, object]]:
    first, best = pruned[0], pruned[-1]
    late, early = best.prunable(LEAST[0]), first.prunable(LEAST[0])
    if first is best:
        early = np.full_like(early, np.nan)
    yield claim_row("michel-f5-late-prunable", labels, *interval(late))
    claim = "michel-f5-early-heads-equal"
    yield claim_row(claim, labels, *interval(late - early), float(early[0]))


def draw_curves(tables: Tables) -> Figure:
    """Figure 5: BLEU over the checkpoint's own against the share pruned, a line a checkpoint."""
    curves = tables["curves"]
    checkpoints = tables["checkpoints"].query("pruned").sort_values("at_update")
    figure = Figure(figsize=(10.5, 4.8), layout="constrained")
    axes = figure.subplots(1, len(ORDERS), sharey=True)
    titles = ("in the order of its own importance", "in one random order")
    highest = max(1.0, curves["kept"].max())
    for axis, order, title in zip(axes, ORDERS, titles, strict=True):
        axis.set(title=title, xlabel="share of all heads pruned", xlim=(-0.02, 1),
                 ylim=(0, 1.05 * highest))  # fmt: skip
        _lines(axis, curves[curves["order"] == order], checkpoints)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("BLEU over that of the whole checkpoint")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center",
                  title="update (BLEU)", frameon=False)  # fmt: skip
    return figure


def _lines(axis: Axes, curves: pd.DataFrame, checkpoints: pd.DataFrame) -> None:
    shades = np.linspace(*SHADES, len(checkpoints))
    for row, shade in zip(checkpoints.itertuples(), shades, strict=True):
        levels = curves[curves["update"] == row.update]
        best = row.update == BEST
        axis.plot(levels["share"], levels["kept"], "--" if best else "-", marker="o", markersize=4,
                  color=colormaps["viridis"](1 - shade), label=_label(row.update, row.at_update,
                  row.bleu))  # fmt: skip
    axis.axhspan(*LEAST, color="#777777", alpha=0.15, linewidth=0)
    if curves["kept"].isna().all():
        axis.text(0.5, 0.5, "no checkpoint translates yet", transform=axis.transAxes, ha="center")


def _label(update: str, at: int, bleu: float) -> str:
    name = f"{BEST}, {at:,}" if update == BEST else f"{at:,}"
    return f"{name} ({bleu:.1f})"


def draw_prunable(tables: Tables) -> Figure:
    """The share that can be pruned at 85 and at 90 % of a checkpoint's own BLEU, by update."""
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axis = figure.subplots()
    rows = tables["prunable"].sort_values("at_update")
    for (least, order), of_order in rows.groupby(["least", "order"], sort=False):
        colour, marker = LEAST_STYLE[least]
        axis.plot(of_order["at_update"], of_order["share"], ORDERS[order], color=colour,
                  marker=marker, label=f"{least:.0%} of BLEU, {order}")  # fmt: skip
        if order == Order.POSITION:
            axis.fill_between(of_order["at_update"], of_order["low"], of_order["high"],
                              color=colour, alpha=0.15, linewidth=0)  # fmt: skip
    axis.set_xscale("log", base=2)
    ticks = sorted(set(rows["at_update"]))
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks], rotation=45)
    axis.minorticks_off()
    axis.set(xlabel="update", ylabel="share of all heads prunable",
             ylim=(0, 1))  # fmt: skip
    axis.spines[["top", "right"]].set_visible(False)
    if rows["share"].isna().all():
        axis.text(0.5, 0.5, "no checkpoint translates yet", transform=axis.transAxes, ha="center")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def checkpoints_table(tables: Tables) -> pd.DataFrame:
    """Every checkpoint's BLEU, and what importance keeps beside a random order."""
    shown = ["update", "at_update", "bleu", "kept", "kept_random", "above_random", "above_low",
             "above_high"]  # fmt: skip
    return tables["checkpoints"].reindex(columns=shown).astype(object).fillna("")


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    checkpoints = tables["checkpoints"]
    model = checkpoints["model"].iloc[0]
    translating = checkpoints.query("bleu >= @TRANSLATES")
    text = (
        f"{model}: {len(translating)} of {len(checkpoints)} checkpoints, the best model among "
        f"them, reach a BLEU of {TRANSLATES:g}."
    )
    if checkpoints.set_index("update").loc[BEST, "bleu"] < TRANSLATES:
        return f"{text} The best model does not: what its pruned forms keep says nothing."
    shown = dict.fromkeys([translating["update"].iloc[0], BEST])
    return " ".join([text, *(_read_checkpoint(tables, update) for update in shown)])


def _read_checkpoint(tables: Tables, update: str) -> str:
    own = tables["checkpoints"].set_index("update").loc[update]
    shares = tables["prunable"].query("update == @update").set_index(["order", "least"])
    low, high = (shares.loc[(Order.POSITION, least)] for least in LEAST)
    chance = shares.loc[(Order.RANDOM, LEAST[0]), "share"]
    return (
        f"At update {own['at_update']:,} ({'the best model, ' if update == BEST else ''}BLEU "
        f"{own['bleu']:.1f}) {low['share']:.0%} [{low['low']:.0%}, {low['high']:.0%}] of the heads "
        f"can go at {LEAST[0]:.0%} of its BLEU and {high['share']:.0%} at {LEAST[1]:.0%}; in "
        f"random order it is {chance:.0%} at {LEAST[0]:.0%}. On the mean over the levels "
        f"{own['kept']:.0%} of BLEU is kept by importance and {own['kept_random']:.0%} in random "
        f"order (95 % interval of the difference: {own['above_low']:+.0%} to "
        f"{own['above_high']:+.0%})."
    )
