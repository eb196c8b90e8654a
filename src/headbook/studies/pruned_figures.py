"""What both sweeps show: BLEU against the heads that are left (Voita et al. 2019, Figure 7)."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

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
    """BLEU by heads kept, one column a corpus; below, its distance from the whole model.

    Bars are 95 % intervals over resampled sentences, in the lower row of the paired difference.
    """
    points = tables["points"]
    corpora, seeds = list(points["corpus"].unique()), sorted(points["seed"].unique().tolist())
    figure = Figure(figsize=(max(6.5, 4.6 * len(corpora)), 8.2), layout="constrained")
    axes = figure.subplots(2, len(corpora), squeeze=False)
    labels = {"bleu": "BLEU", "to_further": "BLEU minus that of the whole model\ntrained further"}
    for row, (column, label) in zip(axes, labels.items(), strict=True):
        for axis, corpus in zip(row, corpora, strict=True):
            _bleu_panel(axis, points[points["corpus"] == corpus], column, seeds)
            axis.set(title=corpus, xlabel=f"heads kept of {_sizes(points, corpus)}", ylabel=label)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(handles=_legend(seeds), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _sizes(points: pd.DataFrame, corpus: str) -> str:
    return " or ".join(map(str, sorted(points.loc[points["corpus"] == corpus, "of"].unique())))


def _bleu_panel(axis: Axes, points: pd.DataFrame, column: str, seeds: list[int]) -> None:
    for (seed, arm), rows in points.groupby(["seed", "arm"], sort=False):
        look = {"color": COLOURS[arm], "ls": LINES[arm]}
        if arm in (BEFORE, FURTHER):
            # against itself the whole model has no difference: its line is zero
            axis.axhline(rows[column].fillna(0).iloc[0], **look, lw=0.9, alpha=0.7)
            continue
        rows, number = rows.sort_values("kept"), seeds.index(seed)
        # bars of several seeds stand beside each other
        at = rows["kept"] + 0.006 * rows["of"] * (number - (len(seeds) - 1) / 2)
        axis.plot(at, rows[column], marker=MARKERS[number % len(MARKERS)], ms=4.5, lw=1.3, **look)
        axis.vlines(at, rows[f"{column}_low"], rows[f"{column}_high"], color=COLOURS[arm], lw=0.8,
                    alpha=0.45)  # fmt: skip


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
                **(
                    {name.removesuffix("_kept"): learned[name] for name in kinds}
                    if kinds[1:]
                    else {}
                ),
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


def _bleu(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{row['control_bleu']:.1f}"


def _gap(row: dict[str, Any] | None) -> str:
    return "" if row is None else _interval(row, "gap")


def _interval(row: pd.Series | dict[str, Any], name: str) -> str:
    """`+1.2 [+0.3, +2.1]`."""
    return f"{row[name]:+.1f} [{row[f'{name}_low']:+.1f}, {row[f'{name}_high']:+.1f}]"


def opening(points: pd.DataFrame) -> str:
    """The first sentences of either reading: how far the sweeps go, and at what loss."""
    learned = points[points["arm"] == GATES]
    fewest = learned.loc[learned["kept"].idxmin()]
    gain = points.loc[points["arm"] == FURTHER, "to_before"]
    return (
        f"Pruned models: {len(learned)}, of {learned['model'].nunique()} trained ones; they keep "
        f"{span(learned['kept'], '.0f')} of {span(learned['of'], '.0f')} heads. At the end "
        f"{learned['saturated_share'].mean():.0%} of the gates were 0 or 1 without rounding. "
        f"The same further training without pruning changes BLEU by {span(gain)}, so a pruned "
        f"model has to be compared with that: the one with the fewest heads ({fewest['model']}, "
        f"{fewest['kept']} kept) lies {fewest['to_before']:+.1f} from the model before pruning "
        f"and {_interval(fewest, 'to_further')} from the whole one trained further."
    )


def span(values: pd.Series, form: str = "+.1f") -> str:
    """Smallest to largest of what is known, or that nothing is."""
    known = values.dropna()
    if known.empty:
        return "no number"
    ends = [f"{end:{form}}" for end in (known.min(), known.max())]
    return " to ".join(dict.fromkeys(ends))
