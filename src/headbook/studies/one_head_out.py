"""Notebook 20: one head taken out at a time (Michel et al. 2019, section 3.2, Figures 1 and 2)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from headbook.claims.published import ENDS, EQUIVALENT, harmless
from headbook.runs.store import Store
from headbook.stages.masked import Masked, MaskedRun, masked
from headbook.stages.model import TrainedModel, trained
from headbook.statistics import holm
from headbook.studies.ablations import (
    KIND_COLOURS,
    KIND_NAMES,
    changes,
    compared,
    draw_head_maps,
    head_columns,
    one_head_out,
    starred,
)
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.pruning_curves import SIGNIFICANT, primary
from headbook.studies.pruning_orders import Heads, heads_of
from headbook.studies.results import Tables
from headbook.studies.second_texts import OTHER, Text, correlation, other_texts
from headbook.types import Kind

STUDY = "20_one_head_out"
SUM, TOGETHER = "sum of single heads", "all heads at once (coloured)"


@dataclass(frozen=True)
class Subject:
    """One model, all its heads taken out one at a time on several texts, and whole blocks."""

    trained: TrainedModel
    heads: Heads
    found: Masked
    elsewhere: dict[Text, Masked]
    blocks: Masked

    @property
    def labels(self) -> dict[str, object]:
        return model_labels(self.trained)


def compute(config: Config, store: Store | None = None) -> Tables:
    """BLEU without each head, on the test set and on other texts, and without whole blocks."""
    store = store or Store.default()
    sentences = config.preset.pruning.translated
    subjects = [_subject(trained(run, store), sentences, store) for run in config.examined_models()]
    heads = [_heads(each) for each in subjects]
    agreement = [_agreement(each) for each in subjects]
    tables = zip(subjects, heads, agreement, strict=True)
    return {
        "heads": stacked(heads),
        "elsewhere": stacked(_elsewhere(each) for each in subjects),
        "agreement": stacked(agreement),
        "blocks": stacked(_blocks(each) for each in subjects),
        "claims": pd.DataFrame([row for each in tables for row in _claims(*each)]),
    }


def _subject(model: TrainedModel, sentences: int, store: Store) -> Subject:
    heads, test = heads_of(model), primary(model)
    texts = {
        text: one_head_out(model, text.test, sentences, store, text.corpus)
        for text in other_texts(model)
    }
    of_block: dict[tuple[Kind, int], Heads] = {}
    for head in heads:
        block = head.kind, head.layer
        of_block[block] = (*of_block.get(block, ()), head)
    blocks = masked(model, MaskedRun(test, sentences, ((), *of_block.values())), store)
    return Subject(model, heads, one_head_out(model, test, sentences, store), texts, blocks)


def _heads(each: Subject) -> pd.DataFrame:
    rows = pd.concat([head_columns(each.heads), compared(each.found)], axis=1)
    return rows.assign(**each.labels)


def _elsewhere(each: Subject) -> pd.DataFrame:
    """One row a head and text: the change there beside the change on the test set."""
    own = head_columns(each.heads).assign(change=changes(each.found))
    rows = [
        own.assign(text=text.name, text_kind=text.kind, change_there=changes(found))
        for text, found in each.elsewhere.items()
    ]
    return stacked(rows).assign(**each.labels)


def _agreement(each: Subject) -> pd.DataFrame:
    """One row a text: Pearson's correlation of the changes with those on the test set."""
    rows = []
    for text, found in each.elsewhere.items():
        r, low, high = correlation(changes(each.found), changes(found))
        rows.append({"text": text.name, "text_kind": text.kind, "whole_bleu": found.bleu[0],
                     "pearson": r, "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows).assign(**each.labels)


def _blocks(each: Subject) -> pd.DataFrame:
    """One row a block: what taking out all its heads costs, and the sum of what each costs."""
    single = head_columns(each.heads).assign(change=changes(each.found))
    sums = single.groupby(["kind", "layer"], sort=False)["change"].sum().rename("sum_of_changes")
    together = compared(each.blocks)
    return pd.concat([sums.reset_index(), together], axis=1).assign(**each.labels)


def _claims(
    each: Subject, heads: pd.DataFrame, agreement: pd.DataFrame
) -> Iterator[dict[str, object]]:
    labels = each.labels
    encoder = heads[heads["kind"] == Kind.ENCODER]
    numbers = harmless(encoder)
    yield claim_row("michel-t1-few-significant", labels, *(numbers[end] for end in ENDS))
    marked = encoder[holm(encoder["p"]) < SIGNIFICANT]
    better = float((marked["change"] > 0).mean()) if len(marked) else float("nan")
    yield claim_row("michel-t1-half-improve", labels, better)
    yield claim_row("michel-t1-range", labels, *_most_missed(encoder))
    for row in agreement[agreement["text_kind"] == OTHER].to_dict("records"):
        numbers = row["pearson"], row["low"], row["high"]
        yield claim_row("michel-f2-same-heads-elsewhere", labels, *numbers)


def _most_missed(encoder: pd.DataFrame) -> tuple[float, float, float]:
    """The largest loss as a share of the whole model's BLEU, with its interval."""
    row = encoder.loc[encoder["change"].idxmin()]
    if not row["whole_bleu"]:
        return (float("nan"),) * 3
    change, low, high = (float(row[name] / row["whole_bleu"]) for name in ("change", "low", "high"))
    return change, low, high


def draw_histogram(tables: Tables) -> Figure:
    """Figure 1: how many heads leave which BLEU when taken out alone, a panel a model."""
    models = list(tables["heads"].groupby("model", sort=False))
    figure = Figure(figsize=(max(6.5, 4.4 * len(models)), 3.8), layout="constrained")
    axes = figure.subplots(1, len(models), squeeze=False)[0]
    colours = {KIND_NAMES[kind]: colour for kind, colour in KIND_COLOURS.items()}
    for axis, (name, rows) in zip(axes, models, strict=True):
        named = rows.assign(kind=rows["kind"].map(_kind_name))
        ends = rows["bleu"].min(), rows["bleu"].max()
        if ends[0] == ends[1]:
            ends = ends[0] - 0.5, ends[0] + 0.5
        sns.histplot(named, x="bleu", hue="kind", multiple="stack", ax=axis, palette=colours,
                     bins=24, binrange=ends)  # fmt: skip
        axis.axvline(rows["whole_bleu"].iloc[0], color="black", linestyle="--", linewidth=1)
        axis.set(title=name, xlabel="BLEU without the head (dashed: whole model)", ylabel="heads")
        axis.spines[["top", "right"]].set_visible(False)
        handles = axis.get_legend().legend_handles
        axis.get_legend().remove()
    figure.legend(handles, list(KIND_NAMES.values()), loc="outside lower center", ncols=3)
    return figure


def _kind_name(kind: str) -> str:
    return KIND_NAMES[Kind(kind)]


def draw_changes(tables: Tables) -> Figure:
    """Table 1, for all three kinds: the change of BLEU without each head; * is significant."""
    return draw_head_maps(tables["heads"])


def draw_elsewhere(tables: Tables) -> Figure:
    """Figure 2: the change on the test set against that on another text, a point a head."""
    panels = list(tables["elsewhere"].groupby(["model", "text"], sort=False))
    agreement = tables["agreement"].set_index(["model", "text"])
    across = min(3, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(max(6.5, 4.4 * across), 4.4 * down), layout="constrained")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for axis, (name, rows) in zip(axes, panels, strict=False):
        sns.scatterplot(rows, x="change", y="change_there", hue="kind", style="kind", ax=axis,
                        palette=KIND_COLOURS, s=26, alpha=0.8)  # fmt: skip
        found = agreement.loc[name]
        axis.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        axis.axvline(0, color="0.8", linewidth=0.8, zorder=0)
        axis.set(title=f"{name[0]}\n{name[1]} ({found['text_kind']})\n{_said(found)}",
                 xlabel="change of BLEU, test set",
                 ylabel="change of BLEU, the other text")  # fmt: skip
        axis.spines[["top", "right"]].set_visible(False)
        legend = axis.get_legend_handles_labels()
        axis.get_legend().remove()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.legend(*legend, loc="outside lower center", ncols=3)
    return figure


def _said(found: pd.Series) -> str:
    if np.isnan(found["pearson"]):
        return "r: nothing changes"
    return f"r = {found['pearson']:.2f} [{found['low']:.2f}, {found['high']:.2f}]"


def draw_blocks(tables: Tables) -> Figure:
    """What heads cost one by one and all at once, block by block: how much others make up for."""
    models = list(tables["blocks"].groupby("model", sort=False))
    layers = int(tables["blocks"]["layer"].max())
    figure = Figure(figsize=(max(8.5, 1.9 * layers), 3.2 * len(models)), layout="constrained")
    lines = figure.subplots(len(models), len(Kind), squeeze=False)
    for line, (name, rows) in zip(lines, models, strict=True):
        for axis, kind in zip(line, Kind, strict=True):
            of_kind = rows[rows["kind"] == kind]
            at, colour = of_kind["layer"], KIND_COLOURS[kind]
            axis.bar(at - 0.2, of_kind["sum_of_changes"], 0.38, color="0.7")
            axis.bar(at + 0.2, of_kind["change"], 0.38, color=colour)
            axis.axhline(0, color="black", linewidth=0.8)
            axis.set(title=f"{name}\n{KIND_NAMES[kind]}", xlabel="layer", xticks=at)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel("change of BLEU")
    shown = [Patch(color="0.7", label=SUM), Patch(color="black", label=TOGETHER)]
    figure.legend(handles=shown, loc="outside lower center", ncols=2)
    return figure


def extremes_table(tables: Tables) -> pd.DataFrame:
    """The head whose loss costs most and the one whose loss helps most, by model and kind."""
    rows = []
    for (model, kind), found in tables["heads"].groupby(["model", "kind"], sort=False):
        worst, best = (found.loc[[found["change"].agg(pick)]] for pick in ("idxmin", "idxmax"))
        rows.append({"model": model, "kind": kind, "whole model": found["whole_bleu"].iloc[0],
                     "missed most": _named(worst), "best gone": _named(best),
                     "significant": f"{found['significant'].sum()} of {len(found)}"})  # fmt: skip
    return pd.DataFrame(rows)


def _named(row: pd.DataFrame) -> str:
    (one,) = row.to_dict("records")
    return f"L{one['layer']}h{one['head']} {starred(row)[0]}"


def _shown_harmless(heads: pd.DataFrame) -> int:
    """The number of heads without which BLEU is shown to be equivalent."""
    return round(harmless(heads)["low"] * len(heads))


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    heads, agreement = tables["heads"], tables["agreement"]
    marked = heads[heads["significant"]]
    worst = heads.loc[heads["change"].idxmin()]
    blocks = tables["blocks"]
    worse = int((blocks["change"] < blocks["sum_of_changes"]).sum())
    known = agreement.dropna(subset="pearson")
    spans = ", ".join(
        f"{row['model']} and {row['text']} ({row['text_kind']}) {row['pearson']:.2f}"
        for row in known.to_dict("records")
    )
    return (
        f"Of {len(heads)} heads in {heads['model'].nunique()} models {len(marked)} change BLEU "
        f"significantly when taken out alone, {(marked['change'] > 0).sum()} of them for the "
        f"better, and {_shown_harmless(heads)} are shown to lose less than {EQUIVALENT:.0%} of it. "
        f"The largest loss is {worst['change']:+.2f} BLEU ({worst['model']}, "
        f"{worst['kind']}, layer {worst['layer']}, head {worst['head']}). Taking out all heads of "
        f"a block at once costs more than the sum of its heads in {worse} of {len(blocks)} blocks: "
        f"there the other heads had made up for each. Correlation of the changes with those "
        f"on another text: "
        f"{spans or 'no number, as nothing changes'}."
    )
