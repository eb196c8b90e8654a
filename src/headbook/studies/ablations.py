"""A model without one head, or with one head left in a block, beside the whole model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.runs.store import Store
from headbook.stages.masked import Masked, MaskedRun, masked
from headbook.stages.model import TrainedModel
from headbook.studies.pruning_curves import SIGNIFICANT
from headbook.studies.pruning_orders import Heads, heads_of
from headbook.training.paired import paired
from headbook.types import Kind

KIND_COLOURS = {Kind.ENCODER: "#0072b2", Kind.DECODER: "#e69f00", Kind.CROSS: "#cc79a7"}
KIND_NAMES = {
    Kind.ENCODER: "encoder self-attention",
    Kind.DECODER: "decoder self-attention",
    Kind.CROSS: "cross-attention",
}
STAR = "*"
"""What marks a significant difference, as in the work's tables."""


def one_head_out(
    trained: TrainedModel, test: str, sentences: int, store: Store, corpus: str | None = None
) -> Masked:
    """The whole model, and then the model without each of its heads, in the order of `heads_of`."""
    masks = ((), *((head,) for head in heads_of(trained)))
    return masked(trained, MaskedRun(test, sentences, masks, corpus=corpus), store)


def changes(found: Masked) -> np.ndarray:
    """BLEU of every mask but the first less that of the first, the whole model."""
    return found.bleu[1:] - found.bleu[0]


def head_columns(heads: Heads) -> pd.DataFrame:
    """Kind, layer and head, one row a head; layers and heads count from one."""
    rows = [(str(head.kind), head.layer + 1, head.head + 1) for head in heads]
    return pd.DataFrame(rows, columns=["kind", "layer", "head"])


def compared(found: Masked) -> pd.DataFrame:
    """One row a mask but the first: BLEU, its change, interval and p of the change, loss added.

    The interval and p are of a paired bootstrap over sentences; `significant` is p below the work's
    level.
    """
    rows = []
    for number in range(1, len(found.bleu)):
        test = paired(found.statistics[number], found.statistics[0])
        rows.append(
            {
                "bleu": float(found.bleu[number]),
                "change": test.difference,
                "low": test.low,
                "high": test.high,
                "p": test.p,
                "significant": test.p < SIGNIFICANT,
                "loss_added_nats": float(found.loss[number] - found.loss[0]),
            }
        )
    return pd.DataFrame(rows).assign(whole_bleu=float(found.bleu[0]))


def draw_head_maps(rows: pd.DataFrame) -> Figure:
    """The change of BLEU, [layer, head], a row a model and a column a kind; * is significant."""
    models = list(rows["model"].unique())
    layers = int(rows["layer"].max())
    figure = Figure(figsize=(13, (1.3 + 0.42 * layers) * len(models)), layout="constrained")
    axes = figure.subplots(len(models), len(Kind), squeeze=False)
    for line, model in zip(axes, models, strict=True):
        of_model = rows[rows["model"] == model]
        for axis, kind in zip(line, Kind, strict=True):
            of_kind = of_model[of_model["kind"] == kind]
            _heat(axis, of_kind)
            axis.set(title=f"{model}\n{KIND_NAMES[kind]}", xlabel="head", ylabel="layer")
    return figure


def _heat(axis: Axes, rows: pd.DataFrame) -> None:
    """Each panel has its own span: with one head left cross-attention loses ten times as much."""
    values = rows.pivot(index="layer", columns="head", values="change")
    notes = rows.assign(note=starred(rows)).pivot(index="layer", columns="head", values="note")
    reach = max(float(np.nanmax(np.abs(values.to_numpy()))), 1e-6)
    sns.heatmap(values, annot=notes, fmt="", cmap="vlag_r", vmin=-reach, vmax=reach, cbar=False,
                linewidths=0.5, ax=axis, annot_kws={"size": 8})  # fmt: skip
    axis.tick_params(length=0)


def starred(rows: pd.DataFrame) -> Sequence[str]:
    """The changes as the work prints them: two digits, and a star where they are significant."""
    pairs = zip(rows["change"], rows["significant"], strict=True)
    return [f"{change:+.2f}{STAR if marked else ''}" for change, marked in pairs]
