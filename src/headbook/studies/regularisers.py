"""Notebook 36: what regularisers of diversity, and DropHead, do to translation and to language."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from headbook.heads.four_metrics import ATTENTION, DISSIMILARITY
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.studies.config import Config
from headbook.studies.measurements import stacked
from headbook.studies.regularised_claims import Evidence, claims
from headbook.studies.regularised_figures import (
    draw_bought,
    draw_explained,
    draw_quality,
    draw_removed,
    draw_tuning,
)
from headbook.studies.regularised_gains import gain_rows, gains, mean_over_seeds
from headbook.studies.regularised_measures import (
    INDEX,
    METRICS,
    explained,
    minus_base,
    selected,
)
from headbook.studies.regularised_readings import (
    TABLES,
    Reading,
    asked_of,
    diversity_untrained,
    reading,
)
from headbook.studies.regularised_runs import NONE, Made, Regularising, Task, trained_all
from headbook.studies.removed_heads import HALF, rise
from headbook.studies.results import Tables
from headbook.training.regularising import Term

__all__ = [
    "STUDY", "chosen_table", "compute", "diversity_table", "draw_bought", "draw_explained",
    "draw_quality", "draw_removed", "draw_tuning", "explained_table", "read",
]  # fmt: skip

STUDY = "36_regularisers"
UNTRAINED = "before training"
EXPLAINING = (DISSIMILARITY, ATTENTION)
"""What is put beside the gain."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """Trains what is missing; quality, diversity, the loss without heads, and all of it paired."""
    store, asked = store or Store.default(), config.regularising()
    trained = {task: trained_all(asked, task, store) for task in Task}
    read = {task: _read(dict.fromkeys([*first, *kept]), task, config, store)
            for task, (first, kept) in trained.items()}  # fmt: skip
    chosen = {task: [read[task][each] for each in kept] for task, (_, kept) in trained.items()}
    starts = [_start(first[0], config) for first, _ in trained.values()]
    every = [each for of_task in chosen.values() for each in of_task]
    tables = {name: stacked(each.tables[name] for each in every) for name in TABLES}
    tables["diversity"] = stacked([tables["diversity"], *starts])
    tables["quality"] = pd.DataFrame(
        [_quality(each, each in chosen[task]) for task in Task for each in read[task].values()]
    )
    gained = [gain for of_task in chosen.values() for gain in gains(of_task)]
    tables["gains"] = gain_rows(gained)
    tables["changes"] = changes(tables)
    tables["explained"] = explained_rows(tables["changes"])
    evidence = Evidence(tables["changes"], _corpora(asked), mean_over_seeds(gained))
    tables["claims"] = claims(evidence, tables["explained"])
    return tables


def _corpora(asked: Regularising) -> dict[str, str]:
    return {str(task): Path(asked.base(task).run.corpus).name for task in Task}


def _read(models: Iterable[Made], task: Task, config: Config, store: Store) -> dict[Made, Reading]:
    with tqdm(list(models), desc=f"reading, {task}", unit="model") as bar:
        return {each: reading(each, asked_of(each, config), store) for each in bar}


def _start(base: Made, config: Config) -> pd.DataFrame:
    """Diversity of a task's base before its first update."""
    return diversity_untrained(base, asked_of(base, config)).assign(variant=UNTRAINED)


def _quality(each: Reading, chosen: bool) -> dict[str, object]:
    return {
        **each.made.asked.labels, "chosen": chosen, "valid_nats": each.made.valid_nats,
        "test_nats": each.test_nats, "bleu": each.made.bleu, "perplexity": each.perplexity,
    }  # fmt: skip


def changes(tables: Tables) -> pd.DataFrame:
    """One row a task, variant and seed: what it gains over the base of its seed, and buys.

    Gains are positive where the variant is better. `rise_at_half` is by how much more the loss
    rises without half of the heads; `own_term` the change of the term that was made small, empty of
    DropHead; a column a metric, mean over kinds and layers.
    """
    quality = tables["quality"]
    kept = quality[quality["chosen"]].set_index(INDEX)
    diversity = tables["diversity"].query("variant != @UNTRAINED")
    metrics = diversity.groupby([*INDEX, "metric"])["value"].mean().unstack("metric")[list(METRICS)]
    rises = tables["removed"].groupby(INDEX)[["order", "share", "valid_nats"]].apply(rise, HALF)
    terms = tables["terms"].pivot(index=INDEX, columns="term", values="value")
    moved = minus_base(terms)
    own = [moved.loc[each, each[1]] if each[1] in moved else float("nan") for each in moved.index]
    change = minus_base(
        kept[["test_nats", "bleu"]].join(metrics).join(rises.rename("rise_at_half"))
    )
    found = change.assign(
        own_term=pd.Series(own, moved.index),
        strength=kept["strength"],
        gain_nats=-change["test_nats"],
        gain_bleu=change["bleu"],
    )
    columns = ["strength", "gain_nats", "gain_bleu", "rise_at_half", "own_term", *METRICS]
    return found[columns].reset_index()


def explained_rows(changes: pd.DataFrame) -> pd.DataFrame:
    """One row a task and metric: whether what is bought of it goes with the gain in nats."""
    found = []
    for task, rows in changes.groupby("task", sort=False):
        gain = rows.pivot(index="variant", columns="seed", values="gain_nats")
        for metric in EXPLAINING:
            bought = rows.pivot(index="variant", columns="seed", values=metric)
            found.append({"task": task, "metric": metric, "models": gain.size,
                          **explained(bought.to_numpy(), gain.to_numpy())})  # fmt: skip
    return pd.DataFrame(found)


def chosen_table(tables: Tables) -> pd.DataFrame:
    """What validation chose of each variant, and its scores, mean over the seeds."""
    rows = tables["quality"].query("chosen")
    columns = ["valid_nats", "test_nats", "bleu", "perplexity"]
    means = rows.groupby(["task", "variant", "strength"], sort=False)[columns].mean()
    return means.reset_index()


def diversity_table(tables: Tables) -> pd.DataFrame:
    """Every metric of every variant, mean over kinds, layers and seeds."""
    rows = tables["diversity"]
    means = rows.groupby(["task", "variant", "metric"], sort=False)["value"].mean()
    return means.unstack("metric", sort=False).reset_index()


def explained_table(tables: Tables) -> pd.DataFrame:
    """The correlations with their intervals and shuffled nulls."""
    return tables["explained"]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    parts = (_task_sentences, _sure_sentences, _weakest_sentences, _use_sentences,
             _explained_sentences, _bought_sentences)  # fmt: skip
    return " ".join(sentence for part in parts for sentence in part(tables))


def _task_sentences(tables: Tables) -> Iterator[str]:
    for task, rows in tables["changes"].groupby("task", sort=False):
        gains = rows.groupby("variant", sort=False)["gain_nats"].mean()
        quality = tables["quality"].query("task == @task")
        base = quality.loc[quality["variant"] == NONE, "test_nats"]
        better, seeds = int((gains > 0).sum()), rows["seed"].nunique()
        plural = "seeds" if seeds > 1 else "seed"
        yield (
            f"{str(task).capitalize()}: the base has {base.mean():.3f} nats a token "
            f"on test text; {better} of {len(gains)} regularisers are better on the mean of "
            f"{seeds} {plural}, from {gains.max():+.3f} nats gained "
            f"({gains.idxmax()}) to {gains.min():+.3f} ({gains.idxmin()})."
        )


def _sure_sentences(tables: Tables) -> Iterator[str]:
    """Whose gain is told from none by its interval over seeds; a weak λ changes next to nothing."""
    for task, rows in tables["changes"].groupby("task", sort=False):
        if rows["seed"].nunique() > 1:
            gains = rows.groupby("variant", sort=False)["gain_nats"]
            found = {variant: over_seeds(of_seeds.to_numpy()) for variant, of_seeds in gains}
            better = [name for name, gain in found.items() if gain.low > 0]
            worse = [name for name, gain in found.items() if gain.high < 0]
            yield (
                f"{str(task).capitalize()}, with the interval over seeds on one side of 0: "
                f"{_named(better)} better, {_named(worse)} worse."
            )


def _named(variants: list[str]) -> str:
    """How many, and which; a name may hold a comma."""
    return f"{len(variants)} ({'; '.join(variants)})" if variants else "none"


def _weakest_sentences(tables: Tables) -> Iterator[str]:
    """Where the best strength may lie outside of what was tried, or at zero."""
    quality = tables["quality"]
    for task, rows in selected(quality).groupby("task", sort=False):
        none = rows.loc[rows["strength"] == 0, "variant"].tolist()
        yield (
            f"{str(task).capitalize()}: with λ = 0, the base, among the candidates, validation "
            f"selects it for {_named(none)} of {len(rows)} regularisers."
        )
    terms = quality[
        quality["variant"].isin(list(Term)) & (quality["seed"] == quality["seed"].min())
    ]
    grids = terms.groupby(["task", "variant"])["strength"]
    weakest = (terms["strength"] == grids.transform("min"))[terms["chosen"]]
    if grids.nunique().max() > 1:
        yield (
            f"Validation chose the weakest λ that was tried for {weakest.sum()} of "
            f"{len(weakest)} pairs of task and term: a weaker one may be better."
        )


def _use_sentences(tables: Tables) -> Iterator[str]:
    """A model that hardly uses its heads has little to gain by other ones."""
    most = tables["removed"]["share"].max()
    bases = tables["removed"].query("variant == @NONE")
    for task, rows in bases.groupby("task", sort=False):
        lost = np.mean([rise(one, most) for _, one in rows.groupby("seed")])
        yield (
            f"{str(task).capitalize()}: without {most:.0%} of its heads, taken at random, the base "
            f"loses {lost:.2f} nats a token, which is how much it uses them."
        )


def _explained_sentences(tables: Tables) -> Iterator[str]:
    for row in tables["explained"].itertuples():
        if pd.notna(row.correlation):
            yield (
                f"{str(row.task).capitalize()}: the gain goes with the {row.metric} bought by "
                f"{row.correlation:+.2f}; shuffled, by {row.null_low:+.2f} to {row.null_high:+.2f}."
            )


def _bought_sentences(tables: Tables) -> Iterator[str]:
    rows = tables["changes"]
    own = rows[rows["variant"].isin(list(Term))].groupby(["task", "variant"])["own_term"].mean()
    yield f"{int((own < 0).sum())} of {len(own)} terms are smaller where they are in the loss."
    rises = rows.groupby(["task", "variant"])["rise_at_half"].mean()
    yield (
        f"Without half of its heads the loss rises less than the base's in "
        f"{int((rises < 0).sum())} of {len(rises)} pairs of task and regulariser."
    )
