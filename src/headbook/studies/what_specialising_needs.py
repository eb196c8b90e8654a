"""Notebook 27: which of updates, batches, text and width makes heads specialise."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.texts import HELD_OUT
from headbook.planning.costs import work_of
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.studies.config import Config
from headbook.studies.emergence_figures import BLEU, TITLES, measured_in
from headbook.studies.measurements import claim_row, measure, model_labels, text_of
from headbook.studies.over_seeds import mean_claims
from headbook.studies.pruning_curves import score
from headbook.studies.results import Tables
from headbook.studies.specialisation import (
    ANY_OFFSET,
    CONFIDENCE,
    ROLES,
    Score,
    most_confident,
    sharpest,
    threshold,
)
from headbook.studies.specialising_runs import Change

__all__ = ["STUDY", "compute", "draw_changes", "gains_table", "last_table", "read"]

STUDY = "27_what_specialising_needs"
CLAIMS = {
    # every claim: more of the first than of the second
    "neighbour-needs-updates": (Change.UPDATES, Change.NONE),
    "neighbour-needs-small-batches": (Change.BATCHES, Change.NONE),
    "neighbour-needs-text": (Change.NONE, Change.PAIRS),
    "neighbour-needs-width": (Change.WIDTH, Change.NONE),
    "neighbour-needs-updates-over-width": (Change.UPDATES, Change.WIDTH),
}
SUPERSEDED = tuple(claim.removeprefix("neighbour-") for claim in CLAIMS)
"""Claims about the best of all offsets, the own token's among them: published, not asked again."""
RECIPE = ["updates", "tokens", "pairs", "width"]
SCORES = (BLEU, ANY_OFFSET, *map(str, Score), CONFIDENCE)
NAMES = {
    BLEU: "BLEU",
    ANY_OFFSET: "one offset, own token among them",
    str(Score.NEIGHBOUR): "a neighbour",
    str(Score.OWN): "own token",
    str(Score.OTHER): "offset farther away",
    str(Score.MARGIN): "over the offset baseline",
    str(Score.RARE): "two rarest",
    CONFIDENCE: "confidence",
}
"""What tables call the scores."""
FORMS = dict.fromkeys(SCORES, ".3f") | {BLEU: ".1f"}
LOOKS = {
    Change.NONE: ("#7a7a7a", "o"),
    Change.UPDATES: ("#08306b", "s"),
    Change.BATCHES: ("#4292c6", "^"),
    Change.PAIRS: ("#d9822b", "D"),
    Change.WIDTH: ("#5a9e5a", "v"),
}


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every checkpoint of the model and of each change: BLEU and its most specialised heads."""
    kept = store or Store.default()
    runs = config.specialising().runs()
    rows = [row for change, run in runs for row in _rows(change, trained(run, kept), config, kept)]
    checkpoints = pd.DataFrame(rows)
    return {"checkpoints": checkpoints, "claims": _claims(checkpoints)}


def _rows(
    change: Change, model: TrainedModel, config: Config, store: Store
) -> Iterator[dict[str, object]]:
    """One row a checkpoint, on the held-out sentences of the corpus."""
    run, text = model.run, text_of(model, HELD_OUT, config, store)
    named = model_labels(model)
    named["model"] = f"{named['corpus']} {change}"
    recipe = {
        "change": str(change), "updates": run.training.updates, "tokens": run.training.tokens,
        "pairs": len(model.corpus.train), "width": run.size.width,
        "head_width": run.size.width // run.size.heads,
    }  # fmt: skip
    for update in (0, *model.snapshots):
        measured = measure(model, text, store, update=update)
        spent = work_of(run, replace(run.training, updates=update)) if update else 0.0
        yield {
            **named, **recipe, "update": update, "tflop": spent / 1e12,
            BLEU: float(score(model, (), config.preset.pruning.translated, store, update).bleu[0]),
            **{str(each): sharpest(measured, each).value for each in Score},
            CONFIDENCE: most_confident(measured).value,
        }  # fmt: skip


def _last(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """The row of the last update of every change and seed."""
    return checkpoints[checkpoints["update"] == checkpoints["updates"]]


def _claims(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """One row a claim: the first change minus the second, mean over seeds."""
    last = _last(checkpoints).set_index(["change", "seed"])
    rows = []
    for claim, (more, less) in CLAIMS.items():
        own = (more, less)[more is Change.NONE]
        for seed, row in last.loc[str(own)].iterrows():
            ends = [last.loc[(str(each), seed), str(Score.NEIGHBOUR)] for each in (more, less)]
            rows.append(claim_row(claim, {**row.to_dict(), "seed": seed}, ends[0] - ends[1]))
    return mean_claims(pd.DataFrame(rows))


def draw_changes(tables: Tables) -> Figure:
    """BLEU and each score, mean over seeds and from the least to the largest, a line a change."""
    rows = tables["checkpoints"]
    scores = measured_in(rows, SCORES)
    figure = Figure(figsize=(9.6, 2.6 * len(scores)), layout="constrained")
    axes = figure.subplots(len(scores), 2, sharex="col", sharey="row")
    for line, name in zip(axes, scores, strict=True):
        for axis, spent in zip(line, ("update", "tflop"), strict=True):
            for change in Change:
                _line(axis, rows[rows["change"] == change], spent, name, change)
            if name in ROLES:
                axis.axhline(threshold(Score(name)), color="black", ls=":", lw=1)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(TITLES[name])
    for axis, what in zip(axes[-1], ("update", "TFLOP of training"), strict=True):
        axis.set_xscale("log", base=2)
        ticks = [tick for tick in axis.get_xticks() if _within(tick, axis)]
        axis.set_xticks(ticks, [f"{tick:,.0f}" if tick >= 8 else f"{tick:.2g}" for tick in ticks],
                        rotation=45)  # fmt: skip
        axis.minorticks_off()
        axis.set_xlabel(what)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  frameon=False)  # fmt: skip
    return figure


def _line(axis: Axes, rows: pd.DataFrame, spent: str, name: str, change: Change) -> None:
    """Without the untrained model, which has no place on a logarithmic axis but is the page's."""
    found = rows[rows["update"] > 0].groupby(spent)[name]
    colour, marker = LOOKS[change]
    mean = found.mean()
    # lies on the first part of the longer training's line
    axis.plot(mean.index, mean, color=colour, marker=marker, ms=4, lw=1.3, label=str(change),
              zorder=3 if change is Change.NONE else 2)  # fmt: skip
    axis.fill_between(mean.index, found.min(), found.max(), color=colour, alpha=0.15, lw=0)


def _within(tick: float, axis: Axes) -> bool:
    low, high = axis.get_xlim()
    return bool(low <= tick <= high)


def last_table(tables: Tables) -> pd.DataFrame:
    """What was trained and what came of it at the last update; the untrained model first."""
    rows = tables["checkpoints"]
    untrained = rows[(rows["change"] == Change.NONE) & (rows["update"] == 0)]
    scores = measured_in(rows, SCORES)
    both = [untrained.assign(change="untrained", updates=0, tflop=0.0), _last(rows)]
    table = pd.concat(both).groupby("change", sort=False).agg(
        {name: "first" for name in RECIPE} | {"tflop": "first"} | {name: "mean" for name in scores}
    ).reset_index()  # fmt: skip
    return table.rename(columns={"tokens": "tokens a batch", "tflop": "TFLOP", **NAMES})


def gains_table(tables: Tables) -> pd.DataFrame:
    """Each change minus the model as it is: mean over seeds and its 95 % interval."""
    gains = _gains(tables)
    shown = [
        {"change": change} | {
            NAMES[name]: _said(gains[change, name].to_numpy(), FORMS[name])
            for name in _scores(gains)
        }
        for change in _changes(gains)
    ]  # fmt: skip
    return pd.DataFrame(shown)


def _gains(tables: Tables) -> pd.DataFrame:
    """A row a seed, a column a change and score."""
    scores = measured_in(tables["checkpoints"], SCORES)
    last = _last(tables["checkpoints"]).pivot(index="seed", columns="change", values=list(scores))
    return pd.DataFrame({
        (str(change), name): last[name, str(change)] - last[name, str(Change.NONE)]
        for change in Change if change is not Change.NONE for name in scores
    })  # fmt: skip


def _changes(gains: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(change for change, _ in gains.columns))


def _scores(gains: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(name for _, name in gains.columns))


def _fixed(scores: Iterable[str]) -> str:
    """The score at a fixed offset that a table has: the neighbour's, or of older ones any."""
    return ANY_OFFSET if ANY_OFFSET in scores else str(Score.NEIGHBOUR)


def _said(values: object, form: str) -> str:
    found = over_seeds(values)
    if found.count == 1:
        return f"{found.mean:+{form}}"
    return f"{found.mean:+{form}} ({found.low:+{form}} to {found.high:+{form}})"


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    gains, last = _gains(tables), _last(tables["checkpoints"])
    count = len(gains)
    said = [f"Of every change {count} {'seeds' if count > 1 else 'seed'}."]
    for name in _scores(gains):
        if name in (BLEU, CONFIDENCE):
            continue
        means = {change: gains[change, name].mean() for change in _changes(gains)}
        most = max(means, key=lambda change: means[change])
        highest = last.groupby("change")[name].mean().max()
        role = f"where {threshold(Score(name)):.0%} make the role" if name in ROLES else "no role"
        said.append(
            f"The score “{NAMES[name]}” of the most specialised head comes out best with "
            f"{most}, against the model as it is "
            f"{_said(gains[most, name].to_numpy(), FORMS[name])}; "
            f"the largest mean is {highest:.1%}, {role}."
        )
    said += [_certain(gains), *_turning(tables["checkpoints"])]
    if ANY_OFFSET in last:
        said.append(
            "These tables were published before own token, neighbour and other offsets were "
            "measured apart, and they do not tell the offset: whether any of these changes makes "
            "heads look at a neighbour cannot be told from them."
        )
    return " ".join(said)


def _turning(checkpoints: pd.DataFrame) -> Iterator[str]:
    """Where longer training passes a head's sharpest moment: what else changes from there on."""
    longest = checkpoints[checkpoints["change"] == Change.UPDATES]
    means = longest.groupby("update")[list(measured_in(checkpoints, SCORES))].mean()
    name = _fixed(means.columns)
    peak, end = int(means[name].idxmax()), int(means.index[-1])
    if peak == end:
        return
    at, last = means.loc[peak], means.loc[end]
    others = (BLEU, str(Score.RARE), CONFIDENCE)
    moves = [f"“{NAMES[each]}” {at[each]:{FORMS[each]}} and {last[each]:{FORMS[each]}}"
             for each in others]  # fmt: skip
    yield (
        f"With {Change.UPDATES} the mean of “{NAMES[name]}” is largest, {at[name]:.1%}, after "
        f"{peak:,} updates, and {last[name]:.1%} after {end:,}; then and at the end: "
        f"{', '.join(moves)}."
    )


def _certain(gains: pd.DataFrame) -> str:
    """Which changes are told from none by their interval over seeds."""
    if len(gains) < 2:
        return "One seed gives no interval: what is a gain and what is luck cannot be told."
    name = _fixed(_scores(gains))
    found = {change: over_seeds(gains[change, name].to_numpy()) for change in _changes(gains)}
    sure = [change for change, each in found.items() if each.low > 0 or each.high < 0]
    listed = ", ".join(sure) or "none"
    return f"For “{NAMES[name]}” the interval over seeds lies on one side of 0 with: {listed}."
