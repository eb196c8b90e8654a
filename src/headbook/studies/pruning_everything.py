"""Notebook 19: pruning all attentions (Voita et al. 2019, section 6.3, Table 2, Figures 9, 10)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headbook.artefacts.pruned import EVERYTHING
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.kept_heads import Replicates, group_means, keeping, some_but_not_all
from headbook.studies.measurements import stacked
from headbook.studies.pruned_figures import IN_A_ROW, arms_table, draw_bleu, opening, span
from headbook.studies.pruned_tables import (
    Sweep,
    control_table,
    gap_claim,
    loss_claim,
    point_rows,
    replicates_claim,
    sweeps,
    under_half,
)
from headbook.studies.results import Tables
from headbook.studies.sweeps import RANDOM, SCRATCH
from headbook.types import Kind

__all__ = ["STUDY", "arms_table", "compute", "draw_bleu", "draw_kinds", "draw_layers", "read"]

STUDY = "19_pruning_everything"
EXTREME = 0.10
"""Points that keep, or close, less than this share say nothing about an order (the ledger)."""
KIND_NAMES = {
    Kind.ENCODER: "encoder self-attention",
    Kind.DECODER: "decoder self-attention",
    Kind.CROSS: "cross-attention",
}
KIND_LOOKS = {
    Kind.ENCODER: ("#1f5a92", "o"),
    Kind.DECODER: ("#d9822b", "s"),
    Kind.CROSS: ("#3c8c5a", "^"),
}
THIRDS = ("low", "middle", "high")
THIRD_LOOKS = (("#9ecae1", "o"), ("#4292c6", "s"), ("#08306b", "^"))
"""From low layers, light, to high ones, dark."""


@dataclass(frozen=True)
class Order:
    """Which heads go first, over the points of a sweep that say something about it."""

    sweep: Sweep

    @cached_property
    def every(self) -> Bool[np.ndarray, "point kind layer head"]:
        """Which heads each point keeps."""
        closed = [each.closed_heads for each in self.sweep.learned]
        return keeping(closed, EVERYTHING, self.sweep.base.run.size)

    @cached_property
    def shares(self) -> Float[np.ndarray, "kind layer head"]:
        """At how many of the points each head is kept; NaN where there is no point."""
        kept = some_but_not_all(self.every, EXTREME)
        return kept.mean(axis=0) if len(kept) else np.full(kept.shape[1:], np.nan)

    def encoder_first(self) -> Replicates:
        """Kept share of both decoder attentions, their mean, minus that of the encoder."""
        encoder, decoder, cross = group_means(self.shares)
        return (decoder + cross) / 2 - encoder

    def cross_last(self) -> Replicates:
        """Kept share of the cross-attention minus the larger of the other two."""
        encoder, decoder, cross = group_means(self.shares)
        return cross - np.maximum(encoder, decoder)

    def high_minus_low(self, kind: Kind) -> Replicates:
        """Kept share in the highest third of the layers minus that in the lowest."""
        of_kind = self.shares[EVERYTHING.index(kind)]
        third = max(1, len(of_kind) // 3)
        low, high = of_kind[:third], of_kind[third:][-third:]
        low, high = group_means([low, high])
        return high - low


def compute(config: Config, store: Store | None = None) -> Tables:
    """The sweep of every model with gates everywhere: BLEU with controls, and what goes first."""
    store = store or Store.default()
    found = [Order(each) for each in sweeps(config, EVERYTHING, store)]
    return {
        "points": stacked(point_rows(each.sweep) for each in found),
        "controls": control_table(each.sweep for each in found),
        "layers": stacked(_layer_rows(each) for each in found),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)]),
    }


def _layer_rows(order: Order) -> pd.DataFrame:
    """One row a (point, block): how many heads are left in it."""
    size, heads = order.sweep.base.run.size, order.sweep.heads
    rows = [
        {
            **order.sweep.labels, "penalty": point.penalty, "pruned": point.closed,
            "pruned_of": heads, "kind": str(kind), "layer": layer + 1,
            "kept": int(kept[number, layer].sum()), "of": size.heads,
        }
        for point, kept in zip(order.sweep.learned, order.every, strict=True)
        for number, kind in enumerate(EVERYTHING)
        for layer in range(size.layers)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _claims(order: Order) -> Iterator[dict[str, object]]:
    sweep = order.sweep
    yield loss_claim("voita-t2-half", sweep, under_half(sweep))
    if sweep.scratch:  # a whole training each: not every model has them
        yield gap_claim("voita-t2-trained-beats-scratch", sweep, SCRATCH)
    yield replicates_claim("voita-f9-encoder-first", sweep, order.encoder_first())
    yield replicates_claim("voita-f9-cross-last", sweep, order.cross_last())
    low = -order.high_minus_low(Kind.DECODER)
    yield replicates_claim("voita-f10-decoder-low", sweep, low)
    high = order.high_minus_low(Kind.CROSS)
    yield replicates_claim("voita-f10-cross-high", sweep, high)
    yield gap_claim("budhraja-random-everywhere", sweep, RANDOM)


def draw_kinds(tables: Tables) -> Figure:
    """Figure 9: heads left of each kind against all heads pruned, one panel a model."""
    layers = tables["layers"]
    figure, axes = _panels(list(layers["model"].unique()))
    for axis, (name, of_model) in zip(axes, layers.groupby("model", sort=False), strict=False):
        for kind, (colour, marker) in KIND_LOOKS.items():
            _line(axis, of_model[of_model["kind"] == kind], colour, marker, KIND_NAMES[kind])
        _random_order(axis, of_model[of_model["kind"] == Kind.ENCODER])
        axis.set(title=name, xlabel=_pruned(of_model), ylabel="heads left of a kind")
    _legend(figure, axes)
    return figure


def draw_layers(tables: Tables) -> Figure:
    """Figure 10: heads left in low, middle and high decoder layers against all heads pruned."""
    layers = tables["layers"]
    names = list(layers["model"].unique())
    figure = Figure(figsize=(9.5, 1.0 + 2.9 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), 2, squeeze=False)
    for row, name in zip(axes, names, strict=True):
        of_model = layers[layers["model"] == name]
        for axis, kind in zip(row, (Kind.DECODER, Kind.CROSS), strict=True):
            _layer_lines(axis, of_model[of_model["kind"] == kind])
            axis.set(title=f"{name}: {KIND_NAMES[kind]}", xlabel=_pruned(of_model),
                     ylabel="heads left")  # fmt: skip
    _legend(figure, list(axes.flat))
    return figure


def _layer_lines(axis: Axes, rows: pd.DataFrame) -> None:
    """One line for each third of the layers; for each layer where thirds cannot be made."""
    count = int(rows["layer"].max())
    if count % len(THIRDS):
        for layer, (colour, marker) in zip(range(1, count + 1), _looks(count), strict=True):
            _line(axis, rows[rows["layer"] == layer], colour, marker, f"layer {layer}")
        _random_order(axis, rows[rows["layer"] == 1])
        return
    third = count // len(THIRDS)
    for number, (name, (colour, marker)) in enumerate(zip(THIRDS, THIRD_LOOKS, strict=True)):
        inside = rows[(rows["layer"] - 1) // third == number]
        _line(axis, inside, colour, marker, f"{name} {_ordinal(number, third)}")
    _random_order(axis, inside)


def _looks(count: int) -> list[tuple[str, str]]:
    return [(f"C{number % 10}", "os^Dv"[number % 5]) for number in range(count)]


def _ordinal(number: int, third: int) -> str:
    """`layers 1-2`, or `layer 1` where a third is one layer."""
    first, last = number * third + 1, (number + 1) * third
    return f"(layer {first})" if first == last else f"(layers {first}-{last})"


def _line(axis: Axes, rows: pd.DataFrame, colour: str, marker: str, label: str) -> None:
    """Heads left in these blocks at every point, from the whole model on."""
    left = rows.groupby(["pruned", "penalty"])["kept"].sum().reset_index()
    whole = int(rows.groupby("penalty")["of"].sum().max())
    axis.plot([0, *left["pruned"]], [whole, *left["kept"]], color=colour, marker=marker, ms=4.5,
              lw=1.4, label=label)  # fmt: skip


def _random_order(axis: Axes, rows: pd.DataFrame) -> None:
    """What blocks of this size keep where heads go in random order."""
    whole, every = rows.groupby("penalty")["of"].sum().max(), rows["pruned_of"].max()
    axis.plot([0, every], [whole, 0], color="grey", ls="--", lw=1, label="heads in random order")
    axis.yaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set(xlim=(-0.02 * every, 1.02 * every), ylim=(-0.04 * whole, 1.06 * whole))


def _pruned(rows: pd.DataFrame) -> str:
    return f"heads pruned of {rows['pruned_of'].max()}"


def _panels(names: list[str]) -> tuple[Figure, list[Axes]]:
    columns = min(len(names), IN_A_ROW)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(max(6.5, 4.2 * columns), 0.9 + 3.4 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis in axes[len(names) :]:
        axis.axis("off")
    return figure, axes


def _legend(figure: Figure, axes: list[Axes]) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    claims = tables["claims"].set_index("claim")["value"]
    said = (f"{what}: {span(claims.loc[[claim]], '+.2f')}." for claim, what in _READ.items())
    return " ".join([opening(tables["points"]), *said])


_READ = {
    "voita-t2-half": "BLEU with fewer than half of the heads, minus that of the whole model",
    "voita-t2-trained-beats-scratch": "BLEU minus that of the same heads from scratch",
    "budhraja-random-everywhere": "BLEU minus that of random heads",
    "voita-f9-encoder-first": "Kept share in the decoder minus that in the encoder",
    "voita-f9-cross-last": "Kept share of the cross-attention minus the larger of the other two",
    "voita-f10-decoder-low": "Kept share of decoder self-attention, low layers minus high ones",
    "voita-f10-cross-high": "Kept share of cross-attention, high layers minus low ones",
}
