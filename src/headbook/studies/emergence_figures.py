"""What notebook 26 draws: heads and BLEU through training, for each width."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headbook.artefacts.texts import HELD_OUT
from headbook.studies.results import Tables
from headbook.studies.specialisation import ANY_OFFSET, CONFIDENCE, ROLES, Score, threshold

BLEU = "bleu"
TITLES = {
    BLEU: "BLEU",
    ANY_OFFSET: "largest share at one offset,\nown token among them",
    Score.NEIGHBOUR: "largest share at\na neighbour",
    Score.OWN: "largest share at\nthe own token",
    Score.OTHER: "largest share at one\noffset farther away",
    Score.MARGIN: "largest accuracy\nminus offset baseline",
    Score.RARE: "largest share at the\ntwo rarest",
    CONFIDENCE: "largest confidence",
    "relevance": "largest head's part of its layer's\nrelevance, mean over layers",
    "importance": "part of all importance\nin a tenth of the heads",
}
COLOURS = ("#9ecae1", "#4292c6", "#08306b", "#d9822b", "#7a7a7a")
"""From narrow, light, to wide, dark."""
MARKERS = "os^Dv"
"""One marker a seed."""


def draw_emergence(tables: Tables) -> Figure:
    """One column a corpus, one row a score; dotted is where a head has the role.

    Full lines are the model's own domain, dashed ones the gold treebank.
    """
    rows = tables["checkpoints"]
    scores = measured_in(rows, (BLEU, ANY_OFFSET, *Score, CONFIDENCE))
    return _grid(tables, scores, tuple(dict.fromkeys(rows["text"])))


def measured_in(rows: pd.DataFrame, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the scores that a table has: results published earlier lack some, or have others."""
    return tuple(name for name in names if name in rows)


def draw_concentration(tables: Tables) -> Figure:
    """How unequal heads are in relevance and in importance."""
    return _grid(tables, ("relevance", "importance"), (HELD_OUT,))


def _grid(tables: Tables, scores: tuple[str, ...], texts: tuple[str, ...]) -> Figure:
    rows = tables["checkpoints"]
    corpora, widths = list(rows["corpus"].unique()), _widths(rows)
    figure = Figure(figsize=(max(6.5, 2.6 * len(corpora)), 1.2 + 2.2 * len(scores)),
                    layout="constrained")  # fmt: skip
    axes = figure.subplots(len(scores), len(corpora), squeeze=False, sharex="col", sharey="row")
    for line, name in zip(axes, scores, strict=True):
        for axis, corpus in zip(line, corpora, strict=True):
            of_corpus = rows[rows["corpus"] == corpus]
            _through_training(axis, of_corpus, name, widths, texts)
            if of_corpus[name].isna().all():
                axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center",
                          color="grey")  # fmt: skip
            if name in ROLES:
                axis.axhline(threshold(Score(name)), color="black", ls=":", lw=1)
        line[0].set_ylabel(TITLES[name])
    for axis, corpus in zip(axes[0], corpora, strict=True):
        axis.set_title(corpus)
    for axis in axes[-1]:
        axis.set_xlabel("update")
    handles = _handles(rows, scores, widths, texts)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _through_training(
    axis: Axes, rows: pd.DataFrame, name: str, widths: dict[int, str], texts: tuple[str, ...]
) -> None:
    for (_, text), of_model in rows.groupby(["model", "text"], sort=False):
        values = of_model.dropna(subset=name)
        if text not in texts or values.empty:
            continue
        own, first = text == HELD_OUT, of_model.iloc[0]
        axis.plot(values["update"], values[name], "-" if own else "--", ms=3.5, lw=1.3,
                  color=widths[first["width"]], marker=_marker(first) if own else None,
                  alpha=1.0 if own else 0.7)  # fmt: skip
    updates = rows["update"].unique().tolist()
    first = min(update for update in updates if update > 0)
    axis.set_xscale("symlog", linthresh=first, linscale=0.5, base=2)
    ticks = [0, *_doublings(first, max(updates))]
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks], rotation=45)
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)


def _doublings(first: int, last: int) -> list[int]:
    ticks = [first]
    while 2 * ticks[-1] <= last:
        ticks.append(2 * ticks[-1])
    return ticks


def draw_against_bleu(tables: Tables) -> Figure:
    """The most specialised head against BLEU at the same checkpoint: what comes first."""
    rows = tables["checkpoints"]
    rows = rows[rows["text"] == HELD_OUT]
    widths, corpora = _widths(rows), list(rows["corpus"].unique())
    scores = measured_in(rows, (ANY_OFFSET, Score.NEIGHBOUR, Score.OWN, Score.MARGIN))
    size = (max(6.5, 2.6 * len(corpora)), 1.0 + 2.5 * len(scores))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(len(scores), len(corpora), squeeze=False, sharex="col", sharey="row")
    for line, name in zip(axes, scores, strict=True):
        for axis, corpus in zip(line, corpora, strict=True):
            for _, of_model in rows[rows["corpus"] == corpus].groupby("model", sort=False):
                first = of_model.iloc[0]
                axis.plot(of_model[BLEU], of_model[name], "-", marker=_marker(first), ms=3.5,
                          lw=1.2, color=widths[first["width"]])  # fmt: skip
            if name in ROLES:
                axis.axhline(threshold(Score(name)), color="black", ls=":", lw=1)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(TITLES[name])
    for axis, corpus in zip(axes[0], corpora, strict=True):
        axis.set_title(corpus)
    for axis in axes[-1]:
        axis.set_xlabel("BLEU, greedy")
    handles = _handles(rows, scores, widths, (HELD_OUT,))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _widths(rows: pd.DataFrame) -> dict[int, str]:
    """A colour for each width."""
    return dict(zip(sorted(rows["width"].unique().tolist()), COLOURS, strict=False))


def _marker(row: pd.Series) -> str:
    return MARKERS[int(row["seed"]) % len(MARKERS)]


def _handles(
    rows: pd.DataFrame, scores: tuple[str, ...], widths: dict[int, str], texts: tuple[str, ...]
) -> list[Line2D]:
    heads = rows.drop_duplicates("width").set_index("width")["head_width"]
    handles = [
        Line2D([], [], color=colour, label=f"width {width}, heads {heads[width]} wide")
        for width, colour in widths.items()
    ]
    for _, row in rows.drop_duplicates("seed").iterrows():
        look = {"color": "grey", "ls": "", "marker": _marker(row)}
        handles.append(Line2D([], [], **look, label=f"seed {row['seed']}"))
    for text in texts if len(texts) > 1 else ():
        line = "-" if text == HELD_OUT else "--"
        handles.append(Line2D([], [], color="grey", ls=line, label=text))
    if set(scores) & set(ROLES):
        handles.append(Line2D([], [], color="black", ls=":", label="from here a head has the role"))
    return handles
