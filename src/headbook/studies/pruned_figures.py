"""What both sweeps show: BLEU against the heads that are left (Voita et al. 2019, Figure 7)."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headbook.studies.pruned_tables import BEFORE
from headbook.studies.results import Tables
from headbook.studies.sweeps import FURTHER, GATES, RANDOM, SCRATCH

COLOURS = {GATES: "#1f5a92", RANDOM: "#d9822b", SCRATCH: "#7a7a7a", FURTHER: "#3c8c5a",
           BEFORE: "black"}  # fmt: skip
"""One colour an arm, in every figure."""
LINES = {GATES: "-", RANDOM: "--", SCRATCH: ":", FURTHER: "-.", BEFORE: "-"}
MARKERS = "os^Dv"
"""One marker a seed."""
IN_A_ROW = 3


def draw_bleu(tables: Tables) -> Figure:
    """BLEU by heads kept, one panel a corpus; bars are 95 % intervals over resampled sentences."""
    points = tables["points"]
    corpora = list(points["corpus"].unique())
    columns = min(len(corpora), IN_A_ROW)
    rows = -(-len(corpora) // columns)
    figure = Figure(figsize=(max(6.5, 4.6 * columns), 0.9 + 4.0 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    seeds = sorted(points["seed"].unique())
    for axis, corpus in zip(axes, corpora, strict=False):
        _bleu_panel(axis, points[points["corpus"] == corpus], seeds)
        axis.set(title=corpus, xlabel=f"heads kept of {_sizes(points, corpus)}", ylabel="BLEU")
    for axis in axes[len(corpora) :]:
        axis.axis("off")
    figure.legend(handles=_legend(seeds), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _sizes(points: pd.DataFrame, corpus: str) -> str:
    return " or ".join(map(str, sorted(points.loc[points["corpus"] == corpus, "of"].unique())))


def _bleu_panel(axis: Axes, points: pd.DataFrame, seeds: list[int]) -> None:
    for (seed, arm), rows in points.groupby(["seed", "arm"], sort=False):
        if arm in (BEFORE, FURTHER):
            axis.axhline(rows["bleu"].iloc[0], color=COLOURS[arm], ls=LINES[arm], lw=0.9, alpha=0.7)
            continue
        rows = rows.sort_values("kept")
        marker = MARKERS[seeds.index(seed) % len(MARKERS)]
        ends = [rows["bleu"] - rows["bleu_low"], rows["bleu_high"] - rows["bleu"]]
        axis.errorbar(rows["kept"], rows["bleu"], yerr=[end.clip(lower=0) for end in ends],
                      color=COLOURS[arm], ls=LINES[arm], marker=marker, ms=4.5, lw=1.2,
                      elinewidth=0.6, alpha=0.85)  # fmt: skip


def _legend(seeds: list[int]) -> list[Line2D]:
    names = {GATES: "kept by gates", RANDOM: "random heads", SCRATCH: "from scratch",
             FURTHER: "whole model trained further", BEFORE: "before pruning"}  # fmt: skip
    arms = [
        Line2D([], [], color=COLOURS[arm], ls=LINES[arm], label=name) for arm, name in names.items()
    ]
    return arms + [
        Line2D([], [], color="grey", ls="", label=f"seed {seed}",
               marker=MARKERS[number % len(MARKERS)])
        for number, seed in enumerate(seeds)
    ]  # fmt: skip


def arms_table(tables: Tables) -> pd.DataFrame:
    """The points that have controls: heads kept, BLEU of every arm, and the gaps with intervals."""
    points = tables["points"]
    rows = []
    for (model, penalty), controls in tables["controls"].groupby(["model", "penalty"], sort=False):
        of_model = points[points["model"] == model]
        is_point = (of_model["arm"] == GATES) & (of_model["penalty"] == penalty)
        learned = of_model[is_point].iloc[0]
        kinds = [name for name in points if name.endswith("_kept") and name != "share_kept"]
        whole = {arm: of_model.loc[of_model["arm"] == arm, "bleu"].iloc[0]
                 for arm in (BEFORE, FURTHER)}  # fmt: skip
        gaps = {row["control"]: row for row in controls.to_dict("records")}
        rows.append(
            {
                "model": model,
                **{name.removesuffix("_kept"): learned[name] for name in kinds},
                "kept": f"{learned['kept']} of {learned['of']}",
                "before pruning": f"{whole[BEFORE]:.1f}",
                "trained further": f"{whole[FURTHER]:.1f}",
                "by gates": f"{learned['bleu']:.1f}",
                "against further": _interval(learned, "to_further"),
                "random heads": _bleu(gaps.get(RANDOM)),
                "gap to random": _gap(gaps.get(RANDOM)),
                "from scratch": _bleu(gaps.get(SCRATCH)),
                "gap to scratch": _gap(gaps.get(SCRATCH)),
            }
        )
    return pd.DataFrame(rows or [{"model": "no point of the sweep closed a head"}])


def _bleu(row: dict[str, float] | None) -> str:
    return "" if row is None else f"{row['control_bleu']:.1f}"


def _gap(row: dict[str, float] | None) -> str:
    return "" if row is None else _interval(row, "gap")


def _interval(row: pd.Series | dict[str, float], name: str) -> str:
    """`+1.2 [+0.3, +2.1]`."""
    return f"{row[name]:+.1f} [{row[f'{name}_low']:+.1f}, {row[f'{name}_high']:+.1f}]"
