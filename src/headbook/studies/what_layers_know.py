"""Notebook 39: what layers know of tokens, and how they change them (Voita et al. 2019)."""

import pandas as pd

from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.layer_claims import claims, curve, early_share
from headbook.studies.layer_figures import (
    draw_between,
    draw_change,
    draw_frequency,
    draw_input,
    draw_predicted,
)
from headbook.studies.layer_models import Subject, Task, subjects, text_for
from headbook.studies.layer_tables import (
    INPUT,
    PREDICTED,
    REPLACED,
    SEEDS,
    TASKS,
    WHOLE,
    between_rows,
    compared,
    dissimilarity_rows,
    information_rows,
    step_rows,
)
from headbook.studies.results import Tables

__all__ = [
    "STUDY", "compute", "draw_between", "draw_change", "draw_frequency", "draw_input",
    "draw_predicted", "models_table", "read",
]  # fmt: skip

STUDY = "39_what_layers_know"


def compute(config: Config, store: Store | None = None) -> Tables:
    """Information and distances by layer, of three tasks with each seed."""
    found = subjects(config, store or Store.default())
    text = text_for(config, found[0].made)
    whole, frequency = compared(found, text)
    between, steps = between_rows(whole), step_rows(whole)
    whole.clear()  # some hundreds of megabytes
    tables = {
        "models": pd.DataFrame(map(_model_row, found)),
        "information": information_rows(found, text),
        "between": between,
        "steps": steps,
        "frequency": frequency,
        "heads": dissimilarity_rows(found, text),
    }
    return tables | {"claims": claims(found, tables)}


def _model_row(subject: Subject) -> dict[str, object]:
    made = subject.made
    return {"task": str(subject.task), "seed": subject.seed, "updates": made.run.training.updates,
            "valid_nats": made.curve["valid_loss_nats"].min()}  # fmt: skip


def models_table(tables: Tables) -> pd.DataFrame:
    """How well each model does its own task: nats a predicted token, on validation text."""
    return tables["models"]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    return " ".join([_known(tables), _predicted(tables), _apart(tables), _first(tables)])


def _seeds(tables: Tables) -> list[int]:
    return sorted(set(tables["models"]["seed"].tolist()))


def _known(tables: Tables) -> str:
    rows, seeds = tables["information"], _seeds(tables)
    parts = []
    for task in Task:
        curves = [curve(rows, task, seed, INPUT, WHOLE) for seed in seeds]
        below, least, top = (
            sum(each) / len(seeds)
            for each in zip(*((c.iloc[0], c.min(), c.iloc[-1]) for c in curves), strict=True)
        )
        parts.append(f"{task} {below:.2f}, {least:.2f} and {top:.2f}")
    return (
        "Mutual information with the input token, in nats, at the embedding, where it is least and "
        f"behind the last layer: {'; '.join(parts)}."
    )


def _predicted(tables: Tables) -> str:
    parts = []
    for task, text in ((Task.LANGUAGE, WHOLE), (Task.MASKED, REPLACED)):
        curves = [curve(tables["information"], task, seed, PREDICTED, text)
                  for seed in _seeds(tables)]  # fmt: skip
        gained = sum(c.iloc[-1] - c.iloc[0] for c in curves) / len(curves)
        shares = [early_share(c) for c in curves]
        told = " and ".join(f"{share:.0%}" for share in shares if share == share) or "no part"
        parts.append(f"the {task} gains {gained:.2f} nats, {told} of it in its first layer")
    return f"With the predicted token, {'; '.join(parts)}."


def _apart(tables: Tables) -> str:
    rows = tables["between"][tables["between"]["layer"] > 0]
    told = []
    for between in (TASKS, SEEDS):
        here = rows[rows["between"] == between]
        means = here.groupby(["one", "other"], sort=False)["distance"].mean()
        told += [
            f"{value:.2f} between {one} and {other}" if between == TASKS
            else f"{value:.2f} between two seeds of {one}"
            for (one, other), value in means.items()
        ]  # fmt: skip
    return f"Mean PWCCA distance over the layers: {', '.join(told)}."


def _first(tables: Tables) -> str:
    steps, parts = tables["steps"], []
    for task in Task:
        means = steps[steps["task"] == task].groupby("layer")["distance"].mean()
        parts.append(f"layer {means.idxmax()} for {task} ({means.max():.2f})")
    rows = tables["claims"]
    together = rows[rows["claim"] == "layers-change-with-dissimilarity"]["value"].dropna()
    order = (
        f" Over the layers, change and the output dissimilarity of heads correlate from "
        f"{together.min():+.2f} to {together.max():+.2f}."
        if len(together) else ""
    )  # fmt: skip
    return f"The layer that changes tokens most is {', '.join(parts)}.{order}"
