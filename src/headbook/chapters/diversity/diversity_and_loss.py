"""Page 34: does the diversity of heads predict the loss of a batch? (X-raying article.)"""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import spearmanr

from headbook.artefacts.language import LanguageModel, Setting
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._seeds import over_settings
from headbook.chapters.diversity._training_claims import KEYS as SETTING_KEYS
from headbook.chapters.diversity._watched import (
    batch_rows,
    column,
    has_one_pair,
    labels,
    language_models,
    variance,
)
from headbook.chapters.tables import claim_row, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.ledger import load as ledger
from headbook.claims.verdict import COLUMNS
from headbook.heads.four_metrics import DISSIMILARITY, RAW
from headbook.runs.store import Store

NUMBER = 34
TITLE = "Does diversity predict the loss?"
WORK = "asad2024"
KEYS = ("setting", "model", "layer")

BATCHES = 40
"""Number of batches, from the start of training, as in the article."""
COLLAPSE = 5
"""The first batches, in which the loss of the article's models falls to where it stays."""
BLOCK = 5
"""Consecutive batches that are left out together: neighbours are too much alike to be tests."""
TOGETHER = ("xray-loss-less-from-later-published", "xray-loss-beats-batch-number-published")
"""Claims about all settings together: each was trained once, and six layers are few."""
MEAN, SPREAD = column(DISSIMILARITY, RAW), variance(DISSIMILARITY, RAW)
Numbers = Float[np.ndarray, " batch"]
Regressors = Float[np.ndarray, "batch regressor"]
NAN = float("nan")


Parameters = Trained


def compute(parameters: Parameters, store: Store) -> Tables:
    """Nothing at `published`; else batches, regressions of every layer, claims."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The tables of a profile; models that the store lacks are trained."""
    models = [
        (setting, model) for setting in Setting for model in language_models(config, setting, store)
    ]
    batches = [batch_rows(model, BATCHES).assign(setting=str(setting)) for setting, model in models]
    fits = [_fits(rows) for rows in batches]
    return {
        "batches": stacked(batches),
        "fits": stacked(fits),
        "claims": claims_of(models, fits),
    }


def _fits(batches: pd.DataFrame) -> pd.DataFrame:
    """One row per layer: R² of the loss on mean and variance, of the mean alone, and held out."""
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


def claims_of(
    models: Sequence[tuple[Setting, LanguageModel]], fits: Sequence[pd.DataFrame]
) -> pd.DataFrame:
    """Rows of all claims, from the regressions of each model."""
    found = zip(models, fits, strict=True)
    rows = [row for (setting, model), own in found for row in _claims(setting, model, own)]
    return over_settings(pd.DataFrame(rows, columns=list(COLUMNS)), TOGETHER)


def _claims(
    setting: Setting, model: LanguageModel, fits: pd.DataFrame
) -> Iterator[dict[str, object]]:
    if has_one_pair(model):
        return
    key, named, first = SETTING_KEYS[setting], labels(model), fits.iloc[0]
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


SHOWN = {
    "r2": "first 40 batches",
    "r2_later": "without the first five",
    "padding_later": "without the first five, by padding",
    "held_out": "held-out blocks",
    "clock": "held-out blocks, by batch number",
}
"""Shares of the loss explained, by their names in the figure."""


def explained(tables: Tables) -> pd.DataFrame:
    """Share of the loss that the first layer explains: median, least and largest over models.

    One row per kind of share and setting; `paper` is the article's, of its own model.
    """
    first, known = first_layer(tables).dropna(subset="r2"), paper()
    rows = []
    for name, shown in SHOWN.items():
        for setting, of_setting in first.groupby("setting", sort=False):
            values = of_setting[name].dropna()
            if values.empty:
                continue
            rows.append({"share": shown, "setting": setting, "value": values.median(),
                         "low": values.min(), "high": values.max(), "models": len(values),
                         "paper": known.get(name)})  # fmt: skip
    columns = ["share", "setting", "value", "low", "high", "models", "paper"]
    frame = pd.DataFrame(rows, columns=columns)
    frame.loc[frame.duplicated("share"), "paper"] = float("nan")
    return frame.astype({"paper": float})


def first_layer(tables: Tables) -> pd.DataFrame:
    """The fits of the first layer, with R² of the loss on other regressors.

    `clock`: held out, of the batch's number and its logarithm; `held_out_clock` has the logarithm
    only. The others are empty where there is no padding: `padding` of the loss on the batch's share
    of padding, and without the first batches `padding_later` of the same, `both_later` with
    dissimilarity beside it, `follows_padding` of that share on dissimilarity.
    """
    found = {}
    for model, rows in tables["batches"].query("layer == 1").groupby("model"):
        rows = rows.sort_values("update")
        number = rows["update"].to_numpy(dtype=float)
        clock = np.column_stack([number, np.log(number + 1)])
        found[model] = {"clock": held_out(clock, rows["loss_nats"].to_numpy())}
        found[model] |= _beside_padding(rows)
    return tables["fits"].query("layer == 1").join(pd.DataFrame(found).T, on="model")


def _beside_padding(rows: pd.DataFrame) -> dict[str, float]:
    later = rows[rows["update"] >= COLLAPSE]
    share, diversity = later[["padding"]].to_numpy(), later[[MEAN, SPREAD]].to_numpy()
    if not share.any() or np.isnan(diversity).any():
        return dict.fromkeys(("padding", "padding_later", "both_later", "follows_padding"), NAN)
    loss = later["loss_nats"].to_numpy()
    return {
        "padding": r_squared(rows[["padding"]].to_numpy(), rows["loss_nats"].to_numpy()),
        "padding_later": r_squared(share, loss),
        "both_later": r_squared(np.column_stack([share, diversity]), loss),
        "follows_padding": r_squared(diversity, share[:, 0]),
    }


def paper() -> dict[str, float]:
    """R² of the article's first layer, from the ledger: over 40 batches, and without five."""
    claims = ledger()
    whole = claims.claim("xray-loss-from-first-layer-published").paper[0].values[0]
    fall = claims.claim("xray-loss-is-the-collapse-published").paper[0].values[0]
    return {"r2": whole, "r2_later": whole - fall}


def by_layer(tables: Tables) -> pd.DataFrame:
    """R² over the first 40 batches by layer: median, least and largest over models."""
    groups = tables["fits"].dropna().groupby(["setting", "layer"], sort=False)["r2"]
    return groups.agg(value="median", low="min", high="max").reset_index()


def orders(tables: Tables) -> pd.DataFrame:
    """Spearman's correlation of R² with the layer, one row per model."""
    fits = tables["fits"].dropna()
    rows = [
        {"setting": setting, "model": model, "order": spearmanr(of["layer"], of["r2"]).statistic}
        for (setting, model), of in fits.groupby(["setting", "model"], sort=False)
    ]
    return pd.DataFrame(rows)


def courses(tables: Tables) -> pd.DataFrame:
    """Loss and first-layer dissimilarity of the first model as published, batch by batch.

    Both in standard deviations from their means over the batches.
    """
    rows = tables["batches"].query("layer == 1")
    rows = rows[rows["model"] == rows["model"].iloc[0]].set_index("update")
    both = rows[["loss_nats", MEAN]].rename(columns={"loss_nats": "loss", MEAN: DISSIMILARITY})
    standard = (both - both.mean()) / both.std()
    return standard.reset_index().melt("update", var_name="quantity", value_name="value")


def models(tables: Tables) -> pd.DataFrame:
    """Shares explained by the first layer, one row per model."""
    rows = first_layer(tables)[["setting", "model", *SHOWN]]
    return rows.assign(model=rows["model"].map(words.model)).round(2).rename(columns=SHOWN)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: ranges over models, of the first layer."""
    found: Facts = {}
    for row in explained(tables).to_dict("records"):
        name = next(key for key, shown in SHOWN.items() if shown == row["share"])
        key = f"{name}_{_setting(row['setting'])}"
        found[key] = f"{row['low']:.2f} to {row['high']:.2f}".replace("-", "−")
        found[f"models_{_setting(row['setting'])}"] = str(row["models"])
    for setting, rows in orders(tables).groupby("setting"):
        low, high = rows["order"].min(), rows["order"].max()
        found[f"order_{_setting(setting)}"] = f"{low:.2f} to {high:.2f}".replace("-", "−")
    first = first_layer(tables).dropna(subset="r2")
    for setting, rows in first.groupby("setting"):
        ahead = rows["clock"] - rows["held_out"]
        found[f"clock_ahead_{_setting(setting)}"] = str(int((ahead > 0).sum()))
        found[f"unlike_ahead_{_setting(setting)}"] = str(int((ahead < 0).sum()))
    for name in ("padding", "both_later", "follows_padding"):
        ends = (f"{end:.2f}" for end in (first[name].min(), first[name].max()))
        found[name] = " to ".join(dict.fromkeys(ends))
    claim = ledger().claim("xray-loss-less-from-later-published").paper[0]
    found |= {f"{name}_paper": f"{value:.2f}" for name, value in paper().items()}
    found["order_paper"] = f"{claim.values[0]:.2f}".replace("-", "−")
    return found


def _setting(name: object) -> str:
    return str(name).split()[-1]
