"""Rows and tables that pages of several parts share, and their means over seeds."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from headbook.artefacts.catalogue import is_named, run
from headbook.artefacts.encoders import EncoderRun
from headbook.artefacts.heads import WithEncoder
from headbook.artefacts.model import ModelRun
from headbook.chapters.chapter import Tables
from headbook.chapters.words import NARROW, OURS
from headbook.claims.gates import NONE, RELEASED
from headbook.claims.verdict import COLUMNS, OPTIONAL
from headbook.statistics import over_seeds


def model_labels(trained_model: WithEncoder) -> dict[str, object]:
    """The columns model, corpus, target and seed."""
    run = trained_model.run
    return {
        "model": model_name(run),
        # A user's own corpus is named by its folder alone: tables carry no machine's paths.
        "corpus": Path(run.corpus).name,
        "target": trained_model.corpus.target_language,
        "seed": run.training.seed,
    }


def model_name(run: ModelRun | EncoderRun) -> str:
    """A model's name in tables and figures: corpus, width and seed."""
    return f"{Path(run.corpus).name} w{run.size.width} s{run.training.seed}"


def claim_row(
    claim: str,
    labels: dict[str, object],
    value: float,
    low: float = float("nan"),
    high: float = float("nan"),
    baseline: float = float("nan"),
) -> dict[str, object]:
    """One row of a page's `claims` table; NaN where there is no number."""
    named = {name: labels[name] for name in ("model", "corpus", "target", "seed")}
    return {"claim": claim, **named, "value": value, "low": low, "high": high,
            "baseline": baseline}  # fmt: skip


def released_claim(
    claim: str,
    model: str,
    value: float,
    low: float = float("nan"),
    high: float = float("nan"),
    *,
    baseline: float = float("nan"),
    corpus: str = RELEASED,
    target: str | None = "",
    closed: str = NONE,
) -> dict[str, object]:
    """A row of a page's claims about a model without further seeds; a released one has converged.

    A model trained here, by its name in the catalogue, has its own corpus and seed, and unless a
    gate is given as `closed`, the ledger's gates are looked at.
    """
    labels = loaded_labels(model, target)
    if corpus != RELEASED:
        labels |= {"corpus": corpus, "seed": ""}
    elif labels["corpus"] != RELEASED and closed == NONE:
        closed = ""
    return claim_row(claim, labels, value, low, high, baseline) | {"closed": closed}


def loaded_labels(model: str, target: str | None = "") -> dict[str, object]:
    """The columns model, corpus, target and seed of a model that can be loaded by its name.

    A model trained here, by its name in the catalogue, has its own corpus and seed.
    """
    labels: dict[str, object] = {"model": model, "corpus": RELEASED, "target": target, "seed": ""}
    if is_named(model):
        made = run(model)
        labels |= {"corpus": Path(made.corpus).name, "seed": made.training.seed}
    return labels


def small_models(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a profile's models trained here, without released ones and the long trainings."""
    if "corpus" in rows:
        rows = rows[rows["corpus"] != RELEASED]
    return rows[~rows["model"].isin((OURS, NARROW))]


def of_small(tables: Tables) -> Tables:
    """The same of every table that names models."""
    return {n: small_models(each) if "model" in each else each for n, each in tables.items()}


def of_ours(tables: Tables, name: str = OURS) -> Tables:
    """Of every table that names models the rows of one long training."""
    return {n: t[t["model"] == name] if "model" in t else t for n, t in tables.items()}


def claims_table(rows: Iterable[dict[str, object]]) -> pd.DataFrame:
    """Rows of claims as a table, with its columns where there is no row."""
    return pd.DataFrame(list(rows), columns=[*COLUMNS, *OPTIONAL])


def stacked(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Tables of the same columns as one; empty ones, whose columns have no type, are left out."""
    found = list(tables)
    return pd.concat([table for table in found if len(table)] or found[:1], ignore_index=True)


def mean_claims(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and model: mean over seeds, Student's interval, mean baseline.

    The column `seed` is empty where there are several.
    """
    found = []
    for (claim, _), here in rows.groupby(["claim", "model"], sort=False):
        summary = over_seeds(here["value"].to_numpy(dtype=float))
        labels = here.iloc[0].to_dict() | ({"seed": ""} if summary.count > 1 else {})
        found.append(claim_row(str(claim), labels, summary.mean, summary.low, summary.high,
                               baseline=here["baseline"].mean()))  # fmt: skip
    return pd.DataFrame(found)
