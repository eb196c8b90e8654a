"""Page 46's small networks of attention and skips: which lengths of paths solve a task."""

import pandas as pd

from headbook.artefacts.paths_alone import (
    ALONG,
    FREQUENT,
    HELD,
    LAYERS,
    NO_LENGTH,
    UNTRAINED,
    UP_TO,
    WHOLE,
    PathsRun,
    answered,
)
from headbook.chapters import words
from headbook.chapters.chapter import Facts
from headbook.chapters.tables import released_claim
from headbook.claims.gates import NONE
from headbook.corpora.sets import FOLLOWING, HULL, MEMORISING, SORTING
from headbook.runs.store import Store
from headbook.statistics import over_seeds

SEEDS = 3
PAPER = {MEMORISING: 0.8, SORTING: 0.6, HULL: 0.65}
"""Least value of paths of length 1, read off the work's figure."""
CARRY, SHORT = "paths-shallow-carry", 2
LEARNT = 0.9
"""Share of right labels from which a network has learnt its task."""


def answers(updates: int, store: Store) -> pd.DataFrame:
    """One row per task, seed, way of answering and length."""
    runs = [PathsRun(task, updates, seed) for task in (*PAPER, FOLLOWING) for seed in range(SEEDS)]
    return pd.DataFrame([
        {"task": run.task, "seed": run.seed, "updates": updates, **row}
        for run in runs for row in answered(run, store)
    ])  # fmt: skip


def claim_rows(found: pd.DataFrame) -> list[dict[str, object]]:
    """One row per claim, task of the work and seed."""
    rows = []
    for task in PAPER:
        right = found[found["task"] == task].set_index(["by", "length", "seed"])["right"]
        right = right.sort_index()
        untrained = _along(right, task, f", {UNTRAINED}")
        for claim, values in {**_along(right, task), CARRY: _carried(right)}.items():
            closed = NONE
            if right[WHOLE, NO_LENGTH].min() < LEARNT:
                closed = "converged: not every seed has learnt the task"
            elif claim in untrained and over_seeds(untrained[claim]).low > 0:
                closed = "diagnostic: untrained networks pass, too"
            rows += [
                released_claim(claim, f"{LAYERS} layers, {task}", value, corpus="", closed=closed)
                | {"seed": seed}
                for seed, value in values.items()
            ]
    return rows


def _along(right: pd.Series, task: str, suffix: str = "") -> dict[str, pd.Series]:
    """Values of the claims about paths alone, per seed; above zero holds."""
    along = right[ALONG + suffix]
    return {
        "paths-short-solve": along[1] - PAPER[task],
        "paths-shorter-better": along[1] - along[LAYERS],
    }


def _carried(right: pd.Series) -> pd.Series:
    """The share of what was learnt that paths of up to SHORT heads answer, per seed."""
    guessed = right[FREQUENT, NO_LENGTH]
    return (right[UP_TO, SHORT] - guessed) / (right[WHOLE, NO_LENGTH] - guessed)


def means(found: pd.DataFrame, by: str) -> pd.DataFrame:
    """Share of right labels by task and length, mean over seeds with its interval."""
    rows = []
    for (task, length), own in found[found["by"] == by].groupby(["task", "length"], sort=False):
        mean = over_seeds(own["right"])
        rows.append({"task": task, "length": length, "value": mean.mean, "low": mean.low,
                     "high": mean.high})  # fmt: skip
    return pd.DataFrame(rows)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Share of right labels, one row per task, one column per way of answering."""
    ways = {
        "most frequent label": (FREQUENT, NO_LENGTH),
        "whole network": (WHOLE, NO_LENGTH),
        "one layer, alone": (ALONG, 1),
        "every layer, alone": (ALONG, LAYERS),
        "one layer, weights held": (HELD, 1),
        "up to two, weights held": (UP_TO, SHORT),
    }
    right = found.groupby(["task", "by", "length"], sort=False)["right"].mean()
    return pd.DataFrame([
        {"task": task, **{name: words.percent(right[task, by, length])
                          for name, (by, length) in ways.items()}}
        for task in found["task"].unique()
    ])  # fmt: skip


def facts(found: pd.DataFrame) -> Facts:
    """Shares of right labels by task, as `sorting_whole`, `sorting_alone`, `sorting_held`."""
    seeds = found.groupby(["task", "by", "length"])["right"]
    right = seeds.mean()
    given: Facts = {"path_updates": f"{found['updates'].iloc[0]:,}", "path_seeds": str(SEEDS)}
    for task in found["task"].unique():
        name = task.replace(" ", "_")
        given[f"{name}_whole"] = words.percent(right[task, WHOLE, NO_LENGTH])
        given[f"{name}_guess"] = words.percent(right[task, FREQUENT, NO_LENGTH])
        given[f"{name}_alone"] = words.percent(right[task, ALONG, 1])
        given[f"{name}_deep"] = words.percent(right[task, ALONG, LAYERS])
        given[f"{name}_held"] = words.percent(right[task, HELD, 1])
        given[f"{name}_short"] = words.percent(right[task, UP_TO, SHORT])
        of_seeds = seeds.get_group((task, UP_TO, SHORT))
        given[f"{name}_short_range"] = words.percents(of_seeds)
        if task in PAPER:
            given[f"{name}_paper"] = words.percent(PAPER[task])
    return given
