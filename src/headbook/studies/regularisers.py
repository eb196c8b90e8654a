"""Notebook 36: what regularisers of diversity, and DropHead, do to translation and to language."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from headbook.corpora.batches import Batch, in_order
from headbook.heads.four_metrics import ATTENTION, DISSIMILARITY
from headbook.models.transformer import Transformer
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import stacked
from headbook.studies.regularised_claims import claims
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
    diversity_rows,
    explained,
    minus_base,
    term_rows,
)
from headbook.studies.regularised_runs import NONE, Made, Regularising, Task, trained_all
from headbook.studies.removed_heads import HALF, rise, without_heads
from headbook.studies.results import Tables
from headbook.training.regularising import Term

__all__ = [
    "STUDY", "chosen_table", "compute", "diversity_table", "draw_bought", "draw_explained",
    "draw_quality", "draw_removed", "draw_tuning", "explained_table", "read",
]  # fmt: skip

STUDY = "36_regularisers"
SENTENCES, SEGMENTS = 100, 8
"""Of validation text, on which diversity is measured: pairs, or segments."""
LOST_SENTENCES, LOST_SEGMENTS = 300, 32
"""Of validation text, on which models lose their heads."""
LEVELS = (0.0, 0.25, 0.5, 0.75)
UNTRAINED = "before training"
EXPLAINING = (DISSIMILARITY, ATTENTION)
"""What is put beside the gain."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """Trains what is missing; quality, diversity, the loss without heads, and all of it paired."""
    store, asked = store or Store.default(), config.regularising()
    trained = [trained_all(asked, task, store) for task in Task]
    parts = [_of_task(*of_task, config) for of_task in trained]
    gained = [gain for _, kept in trained for gain in gains(kept)]
    tables = {name: stacked(part[name] for part in parts) for name in parts[0]}
    tables["gains"] = gain_rows(gained)
    tables["changes"] = changes(tables)
    tables["explained"] = explained_rows(tables["changes"])
    tables["claims"] = claims(
        tables["changes"], tables["explained"], _corpora(asked), mean_over_seeds(gained)
    )
    return tables


def _corpora(asked: Regularising) -> dict[str, str]:
    return {str(task): Path(asked.base(task).run.corpus).name for task in Task}


def _of_task(first: Sequence[Made], kept: Sequence[Made], config: Config) -> Tables:
    with tqdm(kept, desc=f"measuring, {first[0].asked.task}", unit="model") as bar:
        measured = [_measured(each, config) for each in bar]
    rows = {name: stacked(one[name] for one in measured) for name in measured[0]}
    start = _diversity(first[0], first[0].model.untrained(), config).assign(variant=UNTRAINED)
    return {
        "quality": pd.DataFrame([_quality(each, kept) for each in dict.fromkeys([*first, *kept])]),
        **rows,
        "diversity": stacked([rows["diversity"], start]),
    }


def _quality(each: Made, kept: Sequence[Made]) -> dict[str, object]:
    return {
        **each.asked.labels, "chosen": each in kept, "valid_nats": each.valid_nats,
        "test_nats": each.test_nats, "bleu": each.bleu, "perplexity": each.perplexity,
    }  # fmt: skip


def _measured(each: Made, config: Config) -> Tables:
    whole, orders = each.model.model(), config.preset.pruning.orders
    pairs = each.valid_sample(config.sentence_count or LOST_SENTENCES, LOST_SEGMENTS)
    removed = without_heads(whole, lambda: each.nats(whole, pairs), LEVELS, orders,
                            each.asked.variant)  # fmt: skip
    terms = term_rows(whole, each.kinds, _probe(each, config))
    return {
        "diversity": _diversity(each, whole, config),
        "terms": pd.DataFrame(terms).assign(**each.asked.labels),
        "removed": pd.DataFrame(removed).assign(**each.asked.labels),
    }


def _probe(each: Made, config: Config) -> list[Batch]:
    pairs = each.valid_sample(config.sentence_count or SENTENCES, SEGMENTS)
    return list(in_order(pairs, each.asked.run.training.tokens))


def _diversity(each: Made, model: Transformer, config: Config) -> pd.DataFrame:
    rows = diversity_rows(model, each.kinds, _probe(each, config))
    return pd.DataFrame(rows).assign(**each.asked.labels)


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
    return " ".join(
        [*_task_sentences(tables), *_explained_sentences(tables), *_bought_sentences(tables)]
    )


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
