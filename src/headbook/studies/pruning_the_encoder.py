"""Notebook 18: pruning the encoder's heads (Voita et al. 2019, section 6.2, Figures 7 and 8)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from headbook.artefacts.pruned import ENCODER_ONLY
from headbook.heads.roles import DRAWING_ORDER
from headbook.runs.store import Store
from headbook.statistics import block_matched_share, pair_share
from headbook.studies.config import Config
from headbook.studies.kept_roles import (
    ANY_NEARNESS,
    ANY_OFFSET,
    NEARNESS,
    NO_ROLE,
    Survival,
    function_rows,
    mean_rows,
    pair_rows,
    survival,
)
from headbook.studies.measurements import stacked
from headbook.studies.pruned_figures import IN_A_ROW, arms_table, draw_bleu, opening, span
from headbook.studies.pruned_tables import (
    BEFORE,
    control_table,
    gap_claim,
    loss_claim,
    near_ten_of_48,
    point_rows,
    replicates_claim,
    sweeps,
    under_half,
)
from headbook.studies.results import Tables
from headbook.studies.role_maps import ROLE_COLOURS
from headbook.studies.sweeps import FURTHER, GATES, RANDOM, SCRATCH

__all__ = ["STUDY", "arms_table", "compute", "draw_bleu", "draw_functions", "draw_nearness", "read"]

STUDY = "18_pruning_the_encoder"
NAMES = {
    ANY_OFFSET: "share at one offset, own token among them",
    "neighbour": "share at a neighbour",
    "own": "share at the own token",
    "other": "share at an offset farther away",
    "margin": "accuracy above the offset baseline",
    "rare": "pointing at the two rarest",
    "confidence": "confidence",
    NEARNESS: "nearness to a role",
    ANY_NEARNESS: "nearness, own token among the roles",
}
CHANCE = 0.5
"""The share of pairs where what was kept has nothing to do with the score."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """The encoder-only sweep of every model: BLEU with controls, and what the kept heads do."""
    store = store or Store.default()
    found = [survival(each, config, store) for each in sweeps(config, ENCODER_ONLY, store)]
    return {
        "points": stacked(point_rows(each.sweep) for each in found),
        "controls": control_table(each.sweep for each in found),
        "functions": stacked(function_rows(each, store) for each in found),
        "pairs": stacked(pair_rows(each) for each in found),
        "kept_and_closed": stacked(mean_rows(each) for each in found),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)]),
    }


def _claims(found: Survival) -> Iterator[dict[str, object]]:
    sweep = found.sweep
    yield loss_claim("voita-f7-half", sweep, under_half(sweep))
    yield loss_claim("voita-f7-four-fifths", sweep, near_ten_of_48(sweep))
    yield replicates_claim("voita-f8-specialised-last", sweep, found.specialised_gap())
    nearness = found.score(NEARNESS)
    nearer = pair_share(nearness, found.kept)
    matched = block_matched_share(nearness, found.kept, found.blocks)
    yield replicates_claim("voita-f8-nearest-a-role-last", sweep, nearer, baseline=matched)
    if sweep.scratch:  # a whole training each: not every model has them
        yield gap_claim("voita-s6-trained-beats-scratch", sweep, SCRATCH)
    yield gap_claim("voita-s6-choice-matters", sweep, RANDOM)
    yield gap_claim("budhraja-random-hardly-worse", sweep, RANDOM)


def draw_functions(tables: Tables) -> Figure:
    """Figure 8: the roles of the heads that are left, one bar a model of the sweep."""
    functions = tables["functions"]
    names = list(functions["model"].unique())
    columns = min(len(names), IN_A_ROW)
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(max(6.0, 4.4 * columns), 1.0 + 3.1 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, name in zip(axes, names, strict=False):
        _function_bars(axis, functions[functions["model"] == name])
        axis.set(title=name, ylabel="encoder heads", xlabel="heads kept")
    for axis in axes[len(names) :]:
        axis.axis("off")
    labels = {**{role: str(role) for role in DRAWING_ORDER}, NO_ROLE: "no role"}
    handles = [
        Patch(facecolor=_colour(role), edgecolor="grey", label=name)
        for role, name in labels.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _function_bars(axis: Axes, rows: pd.DataFrame) -> None:
    """Before pruning, trained further, and then the points from most heads to fewest."""
    points = rows[rows["arm"] == GATES].sort_values("kept", ascending=False)
    ordered = pd.concat([rows[rows["arm"] == BEFORE], rows[rows["arm"] == FURTHER], points])
    at, bottom = np.arange(len(ordered)), np.zeros(len(ordered))
    for role in (*DRAWING_ORDER, NO_ROLE):
        counts = ordered[str(role)].to_numpy()
        axis.bar(at, counts, 0.75, bottom, color=_colour(role), edgecolor="grey", lw=0.6)
        bottom = bottom + counts
    first = {BEFORE: "all", FURTHER: "all,\nfurther"}
    names = [first.get(arm, str(kept)) for arm, kept in zip(ordered["arm"], ordered["kept"],
                                                            strict=True)]  # fmt: skip
    axis.set_xticks(at, names, fontsize=8)
    axis.set_ylim(0, 1.18 * ordered["of"].max())
    if not ordered[list(map(str, DRAWING_ORDER))].to_numpy().any():
        axis.text(0.5, 0.95, "no head reaches a threshold", ha="center", va="top", fontsize=9,
                  transform=axis.transAxes)  # fmt: skip


def _colour(role: str) -> str:
    return ROLE_COLOURS.get(role, "white")


def draw_nearness(tables: Tables) -> Figure:
    """Without thresholds: how often a kept head scored higher before pruning than a closed one."""
    pairs = tables["pairs"]
    names = list(pairs["model"].unique())
    scores = [name for name in NAMES if name in set(pairs["score"])]
    height = 1.4 + len(scores) * (0.35 + 0.17 * len(names))
    figure = Figure(figsize=(8.5, height), layout="constrained")
    axis = figure.subplots()
    colours = [f"C{number}" for number in range(len(names))]
    step = 0.75 / len(names)
    for number, (name, colour) in enumerate(zip(names, colours, strict=True)):
        of_model = pairs[pairs["model"] == name].set_index("score").reindex(scores)
        at = np.arange(len(scores)) - 0.375 + step * (number + 0.5)
        axis.hlines(at, of_model["low"], of_model["high"], color=colour, lw=1.4)
        axis.plot(of_model["value"], at, "o", color=colour, ms=5)
        axis.plot(of_model["block_matched"], at, "|", color="black", ms=7, mew=1.6)
    axis.axvline(CHANCE, color="grey", ls=":", lw=1)
    axis.set(
        yticks=range(len(scores)),
        yticklabels=[NAMES[name] for name in scores],
        xlim=(0, 1),
        ylim=(len(scores) - 0.5, -0.5),
        xlabel="share of pairs in which the kept head scored higher than the closed one",
    )
    handles = [Line2D([], [], color=colour, marker="o", label=name)
               for name, colour in zip(names, colours, strict=True)]  # fmt: skip
    handles.append(Line2D([], [], color="black", marker="|", ls="", mew=1.6,
                          label="random heads, as many in each layer"))  # fmt: skip
    if pairs["value"].isna().all():
        axis.text(0.5, 0.5, "no model keeps some heads and closes others", ha="center",
                  transform=axis.transAxes)  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    return " ".join(
        [
            opening(tables["points"]),
            *(_gap_sentence(tables["controls"], arm) for arm in (RANDOM, SCRATCH)),
            _role_sentence(tables["functions"]),
            _nearness_sentence(tables["pairs"]),
        ]
    )


def _gap_sentence(controls: pd.DataFrame, arm: str) -> str:
    gaps = controls[controls["control"] == arm]
    what = {RANDOM: "random heads, as many in each layer", SCRATCH: "the same heads from scratch"}
    if gaps.empty:
        return f"Nothing was compared with {what[arm]}."
    clear = int((gaps["gap_low"] > 0).sum())
    return (
        f"Against {what[arm]}, the pruned model differs by {span(gaps['gap'])} BLEU, "
        f"{gaps['gap'].mean():+.1f} on average; its interval lies above zero in {clear} of "
        f"{len(gaps)} comparisons."
    )


def _role_sentence(functions: pd.DataFrame) -> str:
    before = functions[functions["arm"] == BEFORE]
    points = functions[functions["arm"] == GATES]
    holders = int((before["of"] - before[NO_ROLE]).sum())
    after = int((points["kept"] - points[NO_ROLE]).sum())
    return (
        f"Before pruning {holders} of {before['of'].sum()} encoder heads held a role; of the "
        f"{points['kept'].sum()} heads kept over all points {after} do, "
        f"{points['new'].sum()} of them one they had not before."
    )


def _nearness_sentence(pairs: pd.DataFrame) -> str:
    nearness = pairs[pairs["score"] == NEARNESS].dropna(subset="value")
    if nearness.empty:
        return "No sweep has a point that keeps some heads and closes others."
    said = (
        f"Without thresholds: the kept head of a pair had been nearer to a role in "
        f"{span(nearness['value'], '.0%')} of the pairs; random heads, as many in each layer, "
        f"give {span(nearness['block_matched'], '.0%')}."
    )
    untold = pairs.loc[pairs["score"] == ANY_NEARNESS, "model"].unique()
    if len(untold):
        said += (
            f" Not among them is {' and '.join(untold)}, whose published nearness took heads that "
            f"look at their own token for positional ones: how near they came to a role cannot be "
            f"told from its tables."
        )
    return said
