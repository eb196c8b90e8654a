"""Tables of what was seen of heads' diversity while language models were trained."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.artefacts.language import LanguageModel, Setting, language_model
from headbook.artefacts.watching import NOTEBOOK, PROBE, TRAINING, Look
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.tables import stacked
from headbook.heads.four_metrics import (
    ARTICLE,
    DISSIMILARITY,
    FREE,
    NON_ORTHOGONALITY,
    RAW,
)
from headbook.runs.store import Store

FRAMES = 40
"""Of an animation, at most."""
BANDS = ((DISSIMILARITY, RAW), (DISSIMILARITY, FREE), (NON_ORTHOGONALITY, RAW))
"""Whose variance over pairs is kept: what the article draws bands of, and its scale-free form."""


def column(metric: str, form: str) -> str:
    """Name of the column that holds a metric's mean over pairs of heads, or over heads."""
    return f"{metric}, {form}"


def variance(metric: str, form: str) -> str:
    """Name of the column that holds its variance over pairs; empty where there is one pair."""
    return f"{column(metric, form)}, variance"


def language_models(config: Config, setting: Setting, store: Store) -> list[LanguageModel]:
    """The config's models of that setting, trained where they are missing."""
    return [language_model(run, store) for run in config.language_models(setting)]


def labels(model: LanguageModel) -> dict[str, object]:
    """The columns model, corpus, target and seed; a user's own corpus without its path."""
    run = model.run
    corpus = Path(run.corpus).name
    shape = f"{run.size.heads} heads, dropout {run.dropout:g}"
    rate = "" if run.setting is Setting.PUBLISHED else f", rate {peak_rate(model):.1g}"
    return {
        "model": f"{corpus} {shape}{rate} s{run.training.seed}", "corpus": corpus,
        "target": "en", "seed": run.training.seed,
    }  # fmt: skip


def has_one_pair(model: LanguageModel) -> bool:
    """Whether two heads are all: a single pair has no variance, and no claim on it applies."""
    return model.run.size.heads == 2


def peak_rate(model: LanguageModel) -> float:
    """The schedule's largest learning rate."""
    run = model.run
    return run.training.scale * (run.size.width * run.training.warmup) ** -0.5


def look_rows(model: LanguageModel, text: str = PROBE) -> pd.DataFrame:
    """One row per look and layer, one column per metric and form: four metrics through training.

    As the notebook measures there are raw numbers alone.
    """
    rows = [
        {"model": labels(model)["model"], "update": look.update, "layer": layer + 1} | found
        for look in model.looks
        for layer, found in enumerate(_by_layer(look, text))
    ]
    return pd.DataFrame(rows)


def _by_layer(look: Look, text: str) -> Iterator[dict[str, float]]:
    found = look.found[text]
    for layer in range(len(next(iter(found.values())))):
        values = {address: pairs_of(found[address][layer]) for address in found}
        means = {column(metric, form): float(values[metric, form].mean())
                 for metric in ARTICLE for form in (RAW, FREE)
                 if (metric, form) in values}  # fmt: skip
        yield means | {
            variance(*address): _variance(values[address]) for address in BANDS if address in values
        }


def pairs_of(values: Tensor) -> Tensor:
    """Every two heads once, of a matrix of pairs; a number per head is left as it is."""
    if values.ndim == 1:
        return values
    row, other = torch.triu_indices(*values.shape, offset=1)
    return values[row, other]


def _variance(values: Tensor) -> float:
    return float(values.var(correction=0)) if len(values) > 1 else float("nan")


def loss_rows(model: LanguageModel) -> pd.DataFrame:
    """One row per look: the loss of the batch that came next, in nats per token."""
    rows = [{"update": look.update, "loss_nats": look.loss_nats} for look in model.looks]
    return pd.DataFrame(rows).assign(model=labels(model)["model"])


def batch_rows(model: LanguageModel, updates: int) -> pd.DataFrame:
    """One row per look and layer up to `updates`, on the training batch, with its loss.

    As published dissimilarity is the notebook's, of the whole batch with dropout and padding, and
    `padding` is the share of padding among its tokens, which count in its loss.
    """
    published = model.run.setting is Setting.PUBLISHED
    rows = look_rows(model, NOTEBOOK if published else TRAINING)[
        ["model", "update", "layer", column(DISSIMILARITY, RAW), variance(DISSIMILARITY, RAW)]
    ]
    rows = rows.merge(loss_rows(model), on=["model", "update"])
    rows = rows[rows["update"] < updates]
    padding = model.padding(updates) if published else [0.0] * updates
    return rows.assign(padding=rows["update"].map(dict(enumerate(padding))))


def frame_rows(model: LanguageModel) -> pd.DataFrame:
    """Output dissimilarity of every two heads at a few dozen looks, denser at the beginning."""
    looks = _spread(model.looks)
    return pd.DataFrame(
        [
            {"model": labels(model)["model"], "form": form, "update": look.update,
             "layer": layer + 1, "head": head + 1, "other": other + 1,
             "value": float(values[layer, head, other])}
            for form in (RAW, FREE)
            for look in looks
            for values in [look.found[PROBE][DISSIMILARITY, form]]
            for layer, head, other in np.ndindex(*values.shape)
            if head != other
        ]
    )  # fmt: skip


def _spread(looks: Sequence[Look]) -> list[Look]:
    """At most FRAMES looks, evenly in the logarithm of the update."""
    updates = np.array([look.update for look in looks])
    wanted = np.geomspace(1, updates[-1] + 1, FRAMES) - 1
    nearest = {int(np.abs(updates - update).argmin()) for update in wanted}
    return [looks[index] for index in sorted(nearest)]


def watched_tables(config: Config, store: Store) -> Tables:
    """Frames and losses of the first model of each setting."""
    models = [first_of(config, setting, store) for setting in Setting]
    return {
        "frames": stacked(_named(frame_rows(each), each) for each in models),
        "losses": stacked(_named(loss_rows(each), each) for each in models),
    }


def first_of(config: Config, setting: Setting, store: Store) -> LanguageModel:
    """The first of a setting, which is the article's own configuration."""
    return language_model(config.language_models(setting)[0], store)


def _named(rows: pd.DataFrame, model: LanguageModel) -> pd.DataFrame:
    """With the setting in the model's name: both settings stand in one table."""
    return rows.assign(model=f"{model.run.setting}: {labels(model)['model']}")
