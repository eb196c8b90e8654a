"""Tables of what was seen of heads' diversity while language models were trained."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from headbook.artefacts.language import LanguageModel, Setting, language_model
from headbook.artefacts.watching import PROBE, Look
from headbook.chapters.config import Config
from headbook.heads.four_metrics import (
    ARTICLE,
    DISSIMILARITY,
    FREE,
    NON_ORTHOGONALITY,
    RAW,
)
from headbook.runs.store import Store

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
