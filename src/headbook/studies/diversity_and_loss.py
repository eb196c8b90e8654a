"""Notebook 34: does the diversity of heads predict the loss of a batch? (X-raying article.)"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import spearmanr

from headbook.artefacts.language import LanguageModel, Setting
from headbook.claims.verdict import COLUMNS
from headbook.heads.four_metrics import DISSIMILARITY, RAW
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.diversity_watched import (
    batch_rows,
    column,
    has_one_pair,
    labels,
    language_models,
    variance,
)
from headbook.studies.measurements import claim_row, stacked
from headbook.studies.results import Tables
from headbook.studies.training_claims import KEYS

STUDY = "34_diversity_and_loss"
BATCHES = 40
"""Of a training's beginning, as in the article."""
COLLAPSE = 5
"""The first batches, in which the loss falls to what it stays at."""
BLOCK = 5
"""Consecutive batches that are left out together: neighbours are too much alike to be tests."""
MEAN, SPREAD = column(DISSIMILARITY, RAW), variance(DISSIMILARITY, RAW)
Numbers = Float[np.ndarray, " batch"]
Regressors = Float[np.ndarray, "batch regressor"]
NAN = float("nan")


def compute(config: Config, store: Store | None = None) -> Tables:
    """The article's regression for every language model and layer, and what it lacks."""
    store = store or Store.default()
    models = [
        (setting, model) for setting in Setting for model in language_models(config, setting, store)
    ]
    batches = [batch_rows(model, BATCHES).assign(setting=str(setting)) for setting, model in models]
    fits = [_fits(rows) for rows in batches]
    found = zip(models, fits, strict=True)
    return {
        "batches": stacked(batches),
        "fits": stacked(fits),
        "claims": pd.DataFrame(
            [row for (setting, model), rows in found for row in _claims(setting, model, rows)],
            columns=list(COLUMNS),
        ),
    }


def _fits(batches: pd.DataFrame) -> pd.DataFrame:
    """One row a layer: R² of the loss on mean and variance, of the mean alone, and held out."""
    return pd.DataFrame(
        [
            {"setting": rows["setting"].iloc[0], "model": rows["model"].iloc[0], "layer": layer}
            | _of_layer(rows.sort_values("update"))
            for layer, rows in batches.groupby("layer")
        ]
    )


def _of_layer(rows: pd.DataFrame) -> dict[str, float]:
    loss, diversity = rows["loss_nats"].to_numpy(), rows[[MEAN, SPREAD]].to_numpy()
    clock = np.log(rows[["update"]].to_numpy() + 1)
    if np.isnan(diversity).any():  # one pair of heads has no variance
        return dict.fromkeys(("r2", "r2_mean_alone", "r2_later", "held_out", "held_out_clock"), NAN)
    later = rows["update"].to_numpy() >= COLLAPSE
    return {
        "r2": r_squared(diversity, loss),
        "r2_mean_alone": r_squared(diversity[:, :1], loss),
        "r2_later": r_squared(diversity[later], loss[later]),
        "held_out": held_out(diversity, loss),
        "held_out_clock": held_out(clock, loss),
    }


def r_squared(regressors: Regressors, target: Numbers) -> float:
    """Share of the target's variance that least squares with a constant explains, on its own data.

    NaN for fewer points than coefficients, which any data would fit.
    """
    if len(target) <= regressors.shape[1] + 1:
        return NAN
    residual = target - _predicted(regressors, target, regressors)
    return 1 - float(residual @ residual) / float(((target - target.mean()) ** 2).sum())


def held_out(regressors: Regressors, target: Numbers) -> float:
    """The same for blocks of consecutive batches, each predicted from all the others.

    Against the mean of the others; below zero where the regressors are worse than it.
    """
    if len(target) < 2 * BLOCK:
        return NAN
    wrong = base = 0.0
    for first in range(0, len(target), BLOCK):
        out = np.arange(len(target)) // BLOCK == first // BLOCK
        predicted = _predicted(regressors[~out], target[~out], regressors[out])
        wrong += float(((target[out] - predicted) ** 2).sum())
        base += float(((target[out] - target[~out].mean()) ** 2).sum())
    return 1 - wrong / base


def _predicted(
    regressors: Regressors, target: Numbers, at: Float[np.ndarray, "asked regressor"]
) -> Float[np.ndarray, " asked"]:
    # Standardised: dissimilarities are hundredths, and their squares would vanish.
    centre, scale = regressors.mean(0), regressors.std(0) + 1e-12
    known, asked = (_with_constant((each - centre) / scale) for each in (regressors, at))
    return asked @ np.linalg.lstsq(known, target, rcond=None)[0]


def _with_constant(values: Regressors) -> Float[np.ndarray, "batch regressor_and_constant"]:
    return np.column_stack([np.ones(len(values)), values])


def _claims(
    setting: Setting, model: LanguageModel, fits: pd.DataFrame
) -> Iterator[dict[str, object]]:
    if has_one_pair(model):
        return
    key, named, first = KEYS[setting], labels(model), fits.iloc[0]
    # One layer has no order.
    ordered = fits["r2"].notna().all() and len(fits) > 2
    order = spearmanr(fits["layer"], fits["r2"]).statistic if ordered else NAN
    values = {
        "xray-loss-from-first-layer": first["r2"],
        "xray-loss-less-from-later": order,
        "xray-loss-is-the-collapse": first["r2"] - first["r2_later"],
        "xray-loss-beats-batch-number": first["held_out"] - first["held_out_clock"],
    }
    for claim, value in values.items():
        yield claim_row(f"{claim}-{key}", named, float(value))


def draw_first(tables: Tables) -> Figure:
    """Loss against the first layer's mean dissimilarity, a point a batch; first of each setting."""
    batches = tables["batches"][tables["batches"]["layer"] == 1]
    settings = list(batches["setting"].unique())
    figure = Figure(figsize=(5.2 * len(settings), 4.2), layout="constrained")
    for axis, setting in zip(
        figure.subplots(1, len(settings), squeeze=False)[0], settings, strict=True
    ):
        rows = batches[batches["setting"] == setting]
        _scatter(axis, rows[rows["model"] == rows["model"].iloc[0]])
        axis.set_title(f"{setting}:\n{rows['model'].iloc[0]}", fontsize=10)
    figure.colorbar(axis.collections[0], ax=figure.axes, label="batch", shrink=0.85)
    return figure


def _scatter(axis: Axes, rows: pd.DataFrame) -> None:
    axis.plot(rows[MEAN], rows["loss_nats"], color="grey", lw=0.6, alpha=0.6)
    axis.scatter(rows[MEAN], rows["loss_nats"], c=rows["update"], cmap="viridis", vmin=0,
                 vmax=BATCHES, s=26, zorder=2)  # fmt: skip
    for row in rows[rows["update"] < COLLAPSE].itertuples():
        axis.annotate(str(row.update), (getattr(row, row._fields[4]), row.loss_nats), fontsize=8,
                      xytext=(5, 3), textcoords="offset points")  # fmt: skip
    axis.set(xlabel="mean output dissimilarity, first layer, raw", ylabel="loss, nats a token")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.spines[["top", "right"]].set_visible(False)


def draw_fits(tables: Tables) -> Figure:
    """R² by layer: all batches, without the first five, and on batches held out."""
    fits = tables["fits"]
    settings = list(fits["setting"].unique())
    names = {"r2": "R², 40 batches", "r2_later": "R² without the first five",
             "held_out": "R² on batches held out"}  # fmt: skip
    figure = Figure(figsize=(10.2, 4.0 * len(settings)), layout="constrained")
    parts = np.atleast_1d(figure.subfigures(len(settings), 1))
    for part, setting in zip(parts, settings, strict=True):
        here = fits[fits["setting"] == setting]
        part.suptitle(setting, fontweight="bold")
        axes = part.subplots(1, len(names))
        for axis, (name, title) in zip(axes, names.items(), strict=True):
            _by_layer(axis, here, name)
            axis.set(title=title, ylim=(-1.05, 1.05))
        part.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                    frameon=False, fontsize=8)  # fmt: skip
    return figure


def _by_layer(axis: Axes, fits: pd.DataFrame, name: str) -> None:
    known = fits.dropna(subset=name)  # a single pair of heads has no variance, and no fit
    for number, (model, rows) in enumerate(known.groupby("model", sort=False)):
        # Far below zero is as much as to say worse than the mean.
        axis.plot(rows["layer"], rows[name].clip(lower=-1), marker="osv^DPX*"[number % 8], ms=4,
                  lw=1, color=f"C{number}", label=model)  # fmt: skip
    axis.axhline(0, color="grey", lw=0.8, ls=":")
    axis.set_xlabel("layer")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.spines[["top", "right"]].set_visible(False)


def first_table(tables: Tables) -> pd.DataFrame:
    """The first layer's fit of every model."""
    fits = tables["fits"]
    return fits[fits["layer"] == 1].drop(columns="layer")


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    return " ".join(_sentence(*each) for each in tables["fits"].groupby("setting", sort=False))


def _sentence(setting: str, fits: pd.DataFrame) -> str:
    first = fits[fits["layer"] == 1].dropna()
    if first.empty:
        return f"{setting.capitalize()}: no model has two pairs of heads."
    ahead = int((first["held_out"] > first["held_out_clock"]).sum())
    return (
        f"{setting.capitalize()}, the first layer's dissimilarity explains "
        f"{first['r2'].min():.0%} to {first['r2'].max():.0%} of the loss of the first "
        f"{BATCHES} batches and {first['r2_later'].min():.0%} to {first['r2_later'].max():.0%} "
        f"without the first {COLLAPSE}. On batches that were held out it is ahead of the batch's "
        f"mere number in {ahead} of {len(first)} models."
    )
