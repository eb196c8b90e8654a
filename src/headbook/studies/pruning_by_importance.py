"""Notebook 22: pruning heads in the order of importance (Michel et al. 2019, Figures 3 and 4)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.heads.importance import Form
from headbook.pruning.ranking import ascending
from headbook.runs.store import Store
from headbook.stages.model import TrainedModel, trained
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.profile import Pruning
from headbook.studies.pruning_curves import (
    EVERY,
    Curve,
    Replicates,
    Scored,
    averaged,
    curve,
    curve_rows,
    harmless,
    interval,
    kept_at,
    mean_kept,
    score,
)
from headbook.studies.pruning_orders import (
    Heads,
    Order,
    ablation_scores,
    heads_of,
    importances,
    random_orders,
    reestimated,
)
from headbook.studies.results import Tables
from headbook.types import Kind

STUDY = "22_pruning_by_importance"
FIFTH = 0.2
"""Of all heads: what the work finds free (claim michel-f3-fifth-free)."""
MOST = 0.8
"""Of one kind's heads: where the work's curves lie far apart (claims michel-f4-*)."""
COLOURS = {
    Order.POSITION: "#0072b2",
    Order.SENTENCE: "#56b4e9",
    Order.EXACT: "#009e73",
    Order.ABLATION: "#e69f00",
    Order.RANDOM: "#777777",
    Order.REVERSED: "#d55e00",
}
NARROW = 8
"""Inches, up to which a legend has room for two columns only."""
KIND_COLOURS = {Kind.ENCODER: "#0072b2", Kind.DECODER: "#e69f00", Kind.CROSS: "#cc79a7"}
DASHES = {Order.SENTENCE: "--", Order.EXACT: "-.", Order.RANDOM: ":", Order.REVERSED: "--"}
MARKERS = dict(zip(Order, "os^DxV".lower(), strict=True))
KIND_MARKERS = {Kind.ENCODER: "o", Kind.DECODER: "s", Kind.CROSS: "D"}


@dataclass(frozen=True)
class Pruned:
    """One model, its curves, and what every mask of theirs translates."""

    labels: dict[str, object]
    curves: tuple[Curve, ...]
    scored: Scored


def compute(config: Config, store: Store | None = None) -> Tables:
    """BLEU along every order of pruning, what is kept on the mean, and what costs nothing."""
    store = store or Store.default()
    preset = config.preset.pruning
    found = [_prune(trained(run, store), preset, store) for run in config.examined_models()]
    curves = [curve_rows(each.curves, each.scored).assign(**each.labels) for each in found]
    pairs = zip(found, curves, strict=True)
    return {
        "curves": stacked(curves),
        "kept": stacked(_kept(each, rows) for each, rows in pairs),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)]),
    }


def _prune(model: TrainedModel, preset: Pruning, store: Store) -> Pruned:
    curves = (*_together(model, preset, store), *_alone(model, preset, store))
    scored = score(model, curves, preset.translated, store)
    return Pruned(model_labels(model), curves, scored)


def _together(model: TrainedModel, preset: Pruning, store: Store) -> Iterator[Curve]:
    """Heads of the three kinds in one order (Figure 3)."""
    heads, levels = heads_of(model), preset.levels
    position = ascending(importances(model, preset.examined, store))
    sentence = ascending(importances(model, preset.examined, store, Form.SENTENCE))
    exact = reestimated(model, preset.examined, levels, store)
    ablation = ascending(ablation_scores(model, preset.translated, store))
    yield curve(position, levels, Order.POSITION)
    yield curve(sentence, levels, Order.SENTENCE)
    yield curve(exact, levels, Order.EXACT, heads=len(heads))
    yield curve(ablation, levels, Order.ABLATION)
    for number, order in enumerate(random_orders(heads, preset.orders)):
        yield curve(order, levels, Order.RANDOM, number=number)
    yield curve(position[::-1], levels, Order.REVERSED)


def _alone(model: TrainedModel, preset: Pruning, store: Store) -> Iterator[Curve]:
    """The heads of one kind, all others left alone (Figure 4)."""
    heads = ascending(importances(model, preset.examined, store))
    for kind in Kind:
        order: Heads = tuple(head for head in heads if head.kind == kind)
        yield curve(order, preset.levels, Order.POSITION, kind)
        for number, drawn in enumerate(random_orders(order, preset.orders)):
            yield curve(drawn, preset.levels, Order.RANDOM, kind, number)


def _kept(each: Pruned, curves: pd.DataFrame) -> pd.DataFrame:
    """One row an order and scope: mean BLEU kept, how far above random, and the harmless share."""
    rows = []
    measure = partial(mean_kept, scored=each.scored)
    groups = curves.groupby(["scope", "order"], sort=False)
    for (scope, order), levels in groups:
        mean = averaged(measure, each.curves, order, scope)
        above = mean - averaged(measure, each.curves, Order.RANDOM, scope)
        names = ("kept", "low", "high", "above_random", "above_low", "above_high")
        numbers = dict(zip(names, (*interval(mean), *interval(above)), strict=True))
        free = [harmless(drawn) for _, drawn in levels.groupby("number")]
        rows.append({"scope": scope, "order": order, **numbers, "harmless_share": np.mean(free)})
    return pd.DataFrame(rows).assign(**each.labels)


def _claims(each: Pruned) -> Iterator[dict[str, object]]:
    def mean(order: str) -> Replicates:
        return averaged(partial(mean_kept, scored=each.scored), each.curves, order)

    def at(level: float, scope: str = EVERY) -> Replicates:
        measure = partial(kept_at, scored=each.scored, level=level)
        return averaged(measure, each.curves, Order.POSITION, scope)

    def row(claim: str, found: Replicates, baseline: float = np.nan) -> dict[str, object]:
        return claim_row(f"michel-{claim}", each.labels, *interval(found), float(baseline))

    importance, alone = mean(Order.POSITION), mean(Order.ABLATION)
    chance, cross = mean(Order.RANDOM), at(MOST, Kind.CROSS)
    either = np.minimum(at(MOST, Kind.ENCODER), at(MOST, Kind.DECODER))
    yield row("f3-fifth-free", at(FIFTH) - 1, each.scored.bleu[each.scored.full])
    yield row("f3-importance-beats-ablation", importance - alone, alone[0])
    yield row("f3-importance-beats-chance", importance - chance, chance[0])
    yield row("f4-cross-needs-heads", either - cross, cross[0])
    yield row("f4-self-survives", either)


def draw_together(tables: Tables) -> Figure:
    """Figure 3: BLEU against the share of all heads pruned, a line an order, a panel a model."""
    curves = tables["curves"].query("scope == @EVERY")
    figure, panels = _panels(curves, "share of all heads pruned")
    for axis, (_, of_model) in panels:
        for order in Order:
            _line(axis, of_model[of_model["order"] == order], COLOURS[order], order,
                  MARKERS[order], DASHES.get(order, "-"))  # fmt: skip
    _legend(figure, axis)
    return figure


def draw_alone(tables: Tables) -> Figure:
    """Figure 4: BLEU against the share of one kind's heads pruned, random order beside it."""
    curves = tables["curves"].query("scope != @EVERY")
    figure, panels = _panels(curves, "share of the kind's heads pruned")
    for axis, (_, of_model) in panels:
        for kind in Kind:
            of_kind = of_model[of_model["scope"] == kind]
            for order, dashes in ((Order.POSITION, "-"), (Order.RANDOM, ":")):
                _line(axis, of_kind[of_kind["order"] == order], KIND_COLOURS[kind],
                      f"{kind}, {order}", KIND_MARKERS[kind], dashes)  # fmt: skip
    _legend(figure, axis)
    return figure


def _panels(
    curves: pd.DataFrame, label: str
) -> tuple[Figure, list[tuple[Axes, tuple[str, pd.DataFrame]]]]:
    models = list(curves.groupby("model", sort=False))
    figure = Figure(figsize=(max(6.5, 4.2 * len(models)), 4.6), layout="constrained")
    axes = figure.subplots(1, len(models), squeeze=False)[0]
    for axis, (name, of_model) in zip(axes, models, strict=True):
        axis.set(title=name, xlabel=label, ylabel="BLEU", xlim=(-0.02, 1))
        axis.set_ylim(0, max(1.0, 1.08 * of_model["bleu"].max()))
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(zip(axes, models, strict=True))


def _legend(figure: Figure, axis: Axes) -> None:
    columns = 3 if figure.get_figwidth() > NARROW else 2
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def _line(
    axis: Axes, levels: pd.DataFrame, colour: str, label: str, marker: str, dashes: str
) -> None:
    """One order; of random ones their mean, and a band from the worst to the best."""
    at_level = levels.groupby("level")
    bleu, shares = at_level["bleu"], at_level["share"].first()
    axis.plot(shares, bleu.mean(), dashes, color=colour, label=label, marker=marker, markersize=4)
    if levels["number"].nunique() > 1:
        axis.fill_between(shares, bleu.min(), bleu.max(), color=colour, alpha=0.15, linewidth=0)


def draw_kept(tables: Tables) -> Figure:
    """Mean BLEU kept along every joint order, with its interval: right is the better order."""
    rows = tables["kept"].query("scope == @EVERY")
    models = list(rows.groupby("model", sort=False))
    figure = Figure(figsize=(8.5, 0.6 + 2.0 * len(models)), layout="constrained")
    axes = figure.subplots(len(models), 1, squeeze=False, sharex=True)[:, 0]
    for axis, (name, of_model) in zip(axes, models, strict=True):
        heights = range(len(of_model))
        for height, row in zip(heights, of_model.itertuples(), strict=True):
            axis.hlines(height, row.low, row.high, color=COLOURS[row.order], linewidth=2)
            axis.plot(row.kept, height, MARKERS[row.order], color=COLOURS[row.order])
        axis.set_yticks(heights, of_model["order"])
        axis.set(
            title=name,
            xlim=(0, max(1.02, of_model["high"].max())),
            ylim=(len(of_model) - 0.5, -0.5),
        )
        axis.grid(axis="x", alpha=0.3)
        if of_model["kept"].isna().all():
            axis.text(0.5, 0.5, "the full model translates nothing", transform=axis.transAxes,
                      ha="center")  # fmt: skip
    axis.set_xlabel("share of BLEU kept, mean over the levels of pruning")
    return figure


def kept_table(tables: Tables) -> pd.DataFrame:
    """What every order keeps, how far above random that is, and what goes without a real loss."""
    shown = ["model", "scope", "order", "kept", "low", "high", "above_random", "above_low",
             "above_high", "harmless_share"]  # fmt: skip
    return tables["kept"][shown]


def left_table(tables: Tables) -> pd.DataFrame:
    """Which kinds the order of importance takes heads from."""
    taken = tables["curves"].query("scope == @EVERY and order == @Order.POSITION")
    shown = ["model", "share", *(f"{kind}_pruned" for kind in Kind), "bleu", "difference"]
    return taken[shown]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    return " ".join(
        _read_model(name, of_model)
        for name, of_model in tables["kept"].groupby("model", sort=False)
    )


def _read_model(name: str, kept: pd.DataFrame) -> str:
    rows = kept.set_index(["scope", "order"])
    joint = rows.loc[EVERY]
    if joint["kept"].isna().all():
        return f"{name}: the full model translates nothing, so there is nothing to keep."
    first = joint.loc[Order.POSITION]
    best = joint["kept"].idxmax()
    kinds = ", ".join(f"{rows.loc[(kind, Order.POSITION), 'kept']:.0%} ({kind})" for kind in Kind)
    return (
        f"{name}: on the mean over the levels {first['kept']:.0%} of BLEU is kept in the order of "
        f"importance, {joint.loc[Order.ABLATION, 'kept']:.0%} in that of single-head ablation, "
        f"{joint.loc[Order.RANDOM, 'kept']:.0%} in random order and "
        f"{joint.loc[Order.REVERSED, 'kept']:.0%} with the most important heads first; the order "
        f"that keeps most is: {best} ({joint.loc[best, 'kept']:.0%}). The difference between "
        f"importance and random order has the 95 % interval {first['above_low']:+.0%} to "
        f"{first['above_high']:+.0%}. Without a significant loss {first['harmless_share']:.0%} of "
        f"all heads can go by importance and {joint.loc[Order.RANDOM, 'harmless_share']:.0%} at "
        f"random. One kind at a time, by importance, {kinds} is kept."
    )
