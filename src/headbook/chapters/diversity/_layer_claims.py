"""Claims on what layers know, from the tables of layer_tables.py."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from scipy.stats import spearmanr

from headbook.chapters.chapter import Tables
from headbook.chapters.diversity._layer_models import Subject, Task
from headbook.chapters.diversity._layer_tables import (
    BINS,
    INPUT,
    PREDICTED,
    REPLACED,
    SEEDS,
    TASKS,
    TRAINED,
    WHOLE,
)
from headbook.chapters.tables import claim_row

NAN = float("nan")
CONTEXT = {Task.LANGUAGE: WHOLE, Task.MASKED: REPLACED}
"""Position at which each language model predicts."""


def claims(subjects: Sequence[Subject], tables: Tables) -> pd.DataFrame:
    """One row per claim and model, or pair of models."""
    by_model = {(each.task, each.seed): each.labels for each in subjects}
    rows = [
        *_information(by_model, tables["information"]),
        *_distances(by_model, tables["between"]),
        *_changes(by_model, tables),
    ]
    return pd.DataFrame(rows)


def curve(rows: pd.DataFrame, task: Task, seed: int, token: str, text: str) -> pd.Series:
    """Mutual information by layer, from the embedding on, of one trained model.

    With the input it is as estimated, with the predicted token above its null: the bias grows with
    the number of clusters that are in use, and where every token is hidden by one mask these are
    few at first.
    """
    chosen = rows[
        (rows["task"] == task) & (rows["seed"] == seed) & (rows["version"] == TRAINED)
        & (rows["token"] == token) & (rows["text"] == text)
    ]  # fmt: skip
    by_layer = chosen.set_index("layer").sort_index()
    return by_layer["nats"] - (by_layer["null_nats"] if token == PREDICTED else 0.0)


def early_share(nats: pd.Series) -> float:
    """Of what the layers gain, the part of the first; NaN where they gain nothing."""
    gained = nats.iloc[-1] - nats.iloc[0]
    return float((nats.iloc[1] - nats.iloc[0]) / gained) if gained > 0 else NAN


def late_share(nats: pd.Series) -> float:
    """The part of the upper half."""
    gained = nats.iloc[-1] - nats.iloc[0]
    return float((nats.iloc[-1] - nats.iloc[len(nats) // 2]) / gained) if gained > 0 else NAN


Labels = Mapping[tuple[Task, int], dict[str, object]]


def _information(labels: Labels, rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    for seed in dict.fromkeys(seed for _, seed in labels):
        named = {task: labels[task, seed] for task in Task}
        known = {task: curve(rows, task, seed, INPUT, WHOLE) for task in Task}
        fall = {task: float(nats.iloc[-1] - nats.iloc[0]) for task, nats in known.items()}
        masked = known[Task.MASKED]
        values = {
            ("evolution-translation-forgets", Task.TRANSLATION): fall[Task.TRANSLATION],
            ("evolution-language-forgets-more", Task.LANGUAGE): (
                fall[Task.LANGUAGE] - fall[Task.TRANSLATION]
            ),
            ("evolution-masked-remembers", Task.MASKED): float(masked.iloc[-1] - masked.min()),
        }
        for task, text in CONTEXT.items():
            nats = curve(rows, task, seed, PREDICTED, text)
            values["xray-information-early", task] = early_share(nats)
            if task is Task.LANGUAGE:
                values["evolution-language-predicts", task] = float(nats.iloc[-1] - nats.iloc[0])
                values["evolution-language-early", task] = early_share(nats)
            else:
                values["evolution-masked-late", task] = late_share(nats)
        replaced = curve(rows, Task.MASKED, seed, INPUT, REPLACED)
        values["evolution-masked-forgets-replaced", Task.MASKED] = float(
            replaced.iloc[-1] / replaced.iloc[0]
        )
        for (claim, task), value in values.items():
            yield claim_row(claim, named[task], value)


def _distances(labels: Labels, rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Means over the layers, without the embedding."""
    inner = rows[rows["layer"] > 0]
    means = inner.groupby(["between", "one", "other", "seed"])["distance"].mean()
    floor = means[SEEDS].groupby("one").mean() if SEEDS in means.index else pd.Series(dtype=float)
    for (one, other, seed), apart in means[TASKS].items():
        named = labels[Task(one), seed]
        pair = named | {"model": f"{named['corpus']} {one}, {other} s{seed}"}
        most = max(float(floor.get(task, NAN)) for task in (one, other))
        yield claim_row("evolution-tasks-beyond-seeds", pair, apart - most, baseline=most)
    for seed in dict.fromkeys(seed for _, seed in labels):
        far, near = (
            means[TASKS, str(Task.TRANSLATION), str(task), seed]
            for task in (Task.LANGUAGE, Task.MASKED)
        )
        named = labels[Task.TRANSLATION, seed]
        yield claim_row("evolution-language-farther", named, far - near, baseline=near)


def _changes(labels: Labels, tables: Tables) -> Iterator[dict[str, object]]:
    steps, bins, heads = tables["steps"], tables["frequency"], tables["heads"]
    for (task, seed), named in labels.items():
        change = _by_layer(steps, task, seed, "distance")
        later = change.iloc[1:]
        first = float(change.iloc[0] - later.max())
        yield claim_row("xray-first-layer-changes-most", named, first, baseline=later.max())
        unlike = _by_layer(heads, task, seed, "dissimilarity")
        together = float(spearmanr(change, unlike).statistic) if len(change) > 2 else NAN
        yield claim_row("layers-change-with-dissimilarity", named, together)
        if task is Task.TRANSLATION:
            falls = float(later.iloc[-1] - later.iloc[0]) if len(later) > 1 else NAN
            yield claim_row("evolution-translation-settles", named, falls)
            yield claim_row("evolution-frequent-change-more", named, _frequent(bins, task, seed))
        if task is Task.MASKED:
            last = float(later.iloc[-1] - later.iloc[:-1].max()) if len(later) > 1 else NAN
            yield claim_row("evolution-masked-last-step", named, last)


def _by_layer(rows: pd.DataFrame, task: Task, seed: int, column: str) -> pd.Series:
    chosen = rows[(rows["task"] == task) & (rows["seed"] == seed)]
    return chosen.set_index("layer")[column].sort_index()


def _frequent(bins: pd.DataFrame, task: Task, seed: int) -> float:
    """Change of the most frequent tokens minus that of the rarest, mean over the layers.

    Without the first layer's, as in the work. NaN where there is one bin.
    """
    chosen = bins[(bins["task"] == task) & (bins["seed"] == seed) & (bins["layer"] > 1)]
    means = chosen.groupby("ranks")["distance"].mean()
    known = [name for name in BINS if name in means.index]
    return float(means[known[0]] - means[known[-1]]) if len(known) > 1 else NAN
