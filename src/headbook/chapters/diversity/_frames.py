"""Dissimilarities between heads through a training: tidy rows, published rows, runs of a film."""

from math import ceil

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.plots.film import Run
from headbook.types import UserError

PLACE = ["layer", "head", "other"]


def one_column_a_pair(frames: pd.DataFrame) -> pd.DataFrame:
    """Rows of pairs as a shorter table: one row per layer of a frame, and columns "1-2"."""
    pair = frames["head"].astype(str) + "-" + frames["other"].astype(str)
    index = [name for name in frames if name not in ("head", "other", "value")]
    wide = frames.assign(pair=pair).pivot_table("value", index, "pair", aggfunc="first", sort=False)
    return wide.reset_index().rename_axis(columns=None)


def one_row_a_pair(frames: pd.DataFrame) -> pd.DataFrame:
    """The rows of pairs again; pairs that a model with fewer heads lacks are left out."""
    pairs = [name for name in frames if name[0].isdigit()]
    rows = frames.melt([name for name in frames if name not in pairs], pairs, "pair", "value")
    heads = rows.pop("pair").str.split("-", expand=True).astype(int)
    return rows.assign(head=heads[0], other=heads[1]).dropna(subset="value")


def run(frames: pd.DataFrame, losses: pd.DataFrame, model: str, form: str, name: str) -> Run:
    """One model in one form as a run called `name`; UserError where a pair has no number.

    A pair of heads may be given once or from both sides: the matrices are their own mirror images.
    The limit of the colours is the same for every model of a form.
    """
    of_form = frames[frames["form"] == form]
    rows = of_form[of_form["model"] == model]
    curve = losses[losses["model"] == model].dropna(subset="loss_nats").sort_values("update")
    if rows.empty or curve.empty:
        missing = f"frames in form {form!r}" if rows.empty else "losses"
        known = ", ".join(map(str, frames["model"].unique())) or "no model"
        raise UserError(f"no {missing} of model {model!r} to animate; there are frames of {known}")
    updates = tuple(sorted(map(int, rows["update"].unique())))
    values = _values(rows, updates, f"model {model!r}, {form}")
    known_losses = {int(row.update): float(row.loss_nats) for row in curve.itertuples()}
    limit = ceil(of_form["value"].abs().max() * 10) / 10
    return Run(name, updates, values, known_losses, min(max(limit, 0.1), 1.0))


def _values(
    rows: pd.DataFrame, updates: tuple[int, ...], where: str
) -> Float[np.ndarray, "update layer head head"]:
    """Every row in its cell, and from the other side where only one was given."""
    if rows[PLACE].min(axis=None) < 1 or rows.duplicated(["update", *PLACE]).any():
        raise UserError(f"{where}: layers and heads count from 1, and each pair is given once")
    layers, heads = int(rows["layer"].max()), int(rows[["head", "other"]].max(axis=None))
    values = np.full((len(updates), layers, heads, heads), np.nan)
    at = [updates.index(update) for update in rows["update"]]
    values[at, *(rows[name].to_numpy() - 1 for name in PLACE)] = rows["value"]
    values = np.where(np.isnan(values), values.swapaxes(-1, -2), values)
    wrong = np.argwhere(np.isnan(values) != np.eye(heads, dtype=bool))
    if len(wrong):
        update, layer, head, other = wrong[0]
        fault = "a head is compared with itself" if head == other else "a pair has no number"
        raise UserError(
            f"{where}: {fault} at update {updates[update]}, layer {layer + 1}, "
            f"heads {head + 1} and {other + 1}; measure the model again"
        )
    return values
