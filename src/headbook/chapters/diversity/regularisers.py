"""Page 36: terms in the loss that make heads differ, and DropHead (Li et al. 2018 and others)."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from tqdm import tqdm

from headbook.artefacts.regularising import (
    CONSTANT,
    NONE,
    Made,
    Regularising,
    Task,
    V,
    trained_all,
)
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._regularised_claims import (
    TERMS,
    Evidence,
    claims,
    gain_rows,
    gains,
    mean_over_seeds,
)
from headbook.chapters.diversity._regularised_measures import (
    METRICS,
    TABLES,
    Reading,
    asked_of,
    diversity_untrained,
    reading,
)
from headbook.chapters.diversity._removed_heads import HALF, rise
from headbook.chapters.diversity._seeds import over_seed
from headbook.chapters.tables import stacked
from headbook.chapters.trained import Measured, at_profile
from headbook.claims.ledger import load as ledger
from headbook.heads.four_metrics import ATTENTION, DISSIMILARITY
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.statistics import REPLICATES, holm, interval, p_value, within_layers
from headbook.training.regularising import Term

NUMBER = 36
TITLE = "Do regularisers of diversity help?"
WORK = "li2018"
KEYS = ("task", "variant", "strength", "seed")

UNTRAINED = "before training"
EXPLAINING = (DISSIMILARITY, ATTENTION)
"""Measures of diversity whose change is compared with the gain."""
INDEX = ["task", "variant", "seed"]
KEY_OF = {str(term): term.name.lower() for term in Term} | {CONSTANT: "drop_head", V: "drop_v"}
"""Short names of the regularisers, in facts."""
IN_BLEU = {
    str(Term.OUTPUTS): "li-outputs-raise-bleu",
    str(Term.SUBSPACE): "li-subspaces-raise-bleu",
    str(Term.POSITIONS): "li-positions-raise-bleu",
    V: "zhou-drop-head-raises-bleu",
}
"""Claims whose works report a gain in BLEU."""
ESTIMATE = ["value", "low", "high", "seeds"]
Grid = Float[np.ndarray, "variant seed"]


Parameters = Measured


def compute(parameters: Parameters, store: Store) -> Tables:
    """Nothing at `published`; else quality, diversity, loss without heads, changes, claims."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The tables of a profile; models that the store lacks are trained."""
    asked = config.regularising()
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
    """One row per task, variant and seed: gain over the base of its seed, and changes in diversity.

    Gains are positive where the variant is better. `rise_at_half` is by how much more the loss
    rises without half of the heads; `own_term` the change of the term that was made small, empty of
    DropHead; a column per metric, mean over kinds and layers.
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
    """One row per task and metric: whether its change correlates with the gain in nats."""
    found = []
    for task, rows in changes.groupby("task", sort=False):
        gain = rows.pivot(index="variant", columns="seed", values="gain_nats")
        for metric in EXPLAINING:
            bought = rows.pivot(index="variant", columns="seed", values=metric)
            found.append({"task": task, "metric": metric, "models": gain.size,
                          **explained(bought.to_numpy(), gain.to_numpy())})  # fmt: skip
    return pd.DataFrame(found)


def selected(quality: pd.DataFrame) -> pd.DataFrame:
    """One row per task and variant: the strength that validation selects, λ = 0 among them.

    λ = 0 is the base itself, so it takes no training of its own: its row of `quality` is that of
    the same task and seed. Decided with the first seed; of equals the weaker. `strength` is 0 where
    the base has the least loss, `best_strength` the best above 0, which is what further seeds are
    trained with, and `valid_gain` the nats per token by which that one is better than the base.
    """
    first = quality[quality["seed"] == quality.groupby("task")["seed"].transform("min")]
    rows = []
    for (task, variant), tried in first.groupby(["task", "variant"], sort=False):
        if variant == NONE:
            continue
        base = first.query("task == @task and variant == @NONE")["valid_nats"].iloc[0]
        best = tried.sort_values(["valid_nats", "strength"]).iloc[0]
        gain = float(base - best["valid_nats"])
        rows.append({"task": task, "variant": variant, "best_strength": best["strength"],
                     "strength": best["strength"] if gain > 0 else 0.0,
                     "valid_gain": gain})  # fmt: skip
    return pd.DataFrame(rows)


def minus_base(values: pd.DataFrame) -> pd.DataFrame:
    """Indexed by INDEX: every model minus the base of its own task and seed."""
    base = values.xs(NONE, level="variant")
    others = values.drop(index=NONE, level="variant")
    return others - base.reindex(others.index.droplevel("variant")).to_numpy()


def explained(bought: Grid, gain: Grid) -> dict[str, float]:
    """Spearman's correlation of what is bought and what is gained, over the models of one seed.

    The mean over seeds: all models of a seed are compared with one base, whose own luck is no part
    of their order. `low` and `high` by drawing variants again, each with all of its seeds;
    `null_low` and `null_high` hold 95 % of the correlations when gains are shuffled among variants.
    """
    noise = np.random.default_rng(derived(0, "variants drawn again"))
    own = np.arange(len(gain))
    drawn = np.vstack([own, noise.choice(own, size=(REPLICATES, len(own)))])
    mixed = np.vstack([own, noise.permuted(np.tile(own, (REPLICATES, 1)), axis=1)])
    found, low, high = interval(_over_seeds(bought[drawn], gain[drawn]))
    every = np.broadcast_to(bought, (len(mixed), *bought.shape))
    _, null_low, null_high = interval(_over_seeds(every, gain[mixed]))
    return {"correlation": found, "low": low, "high": high, "null_low": null_low,
            "null_high": null_high}  # fmt: skip


def _over_seeds(
    bought: Float[np.ndarray, "replicate variant seed"],
    gain: Float[np.ndarray, "replicate variant seed"],
) -> Float[np.ndarray, " replicate"]:
    """Without a seed in which all were drawn alike."""
    found = within_layers(np.swapaxes(bought, -1, -2), np.swapaxes(gain, -1, -2))
    return torch.as_tensor(found).nanmean(-1).numpy()


def effects(
    tables: Tables, task: str = Task.TRANSLATION, column: str = "gain_bleu"
) -> pd.DataFrame:
    """One row per regulariser: mean gain over seeds, interval, the work's gain, selection.

    Gains are over the base of the same seed, in nats per token or in BLEU; `paper` is the gain in
    BLEU that a work reports. `selected` says whether validation prefers the regulariser to λ = 0,
    `p_holm` is corrected for the number of regularisers.
    """
    rows = over_seed(tables["changes"].query("task == @task"), ["variant", "strength"], column)
    chosen = selected(tables["quality"]).query("task == @task").set_index("variant")["strength"]
    own = chosen.reindex(rows["variant"]).to_numpy() > 0
    rows["selected"] = np.where(own, "selected on validation text", "validation selects none")
    rows["paper"] = rows["variant"].map(paper()) if column == "gain_bleu" else float("nan")
    p = [p_value(*each, 0.0, seeds) for *each, seeds in rows[ESTIMATE].itertuples(index=False)]
    rows["p_holm"] = holm(p)
    rows["label"] = [f"{row.variant}, {row.strength:g}" for row in rows.itertuples()]
    return rows


def paper() -> dict[str, float]:
    """Gains in BLEU that the works report, from the ledger, by regulariser."""
    found = {}
    for variant, claim in IN_BLEU.items():
        (said,) = ledger().claim(claim).paper
        found[variant] = said.values[0] - (said.baseline or 0.0)
    return found


def strengths(tables: Tables) -> pd.DataFrame:
    """Validation loss of each strength minus that of λ = 0, nats per token, with the first seed."""
    quality = tables["quality"]
    first = quality[quality["seed"] == quality.groupby("task")["seed"].transform("min")]
    base = first[first["variant"] == NONE].set_index("task")["valid_nats"]
    rows = first[first["variant"] != NONE]
    rows = rows.assign(added=rows["valid_nats"] - rows["task"].map(base))
    wide = rows.pivot(index=["task", "variant"], columns="strength", values="added")
    wide = wide.loc[list(dict.fromkeys(zip(rows["task"], rows["variant"], strict=True)))]
    shown = wide.map(lambda added: words.signed(added, 3) if pd.notna(added) else "")
    shown.insert(0, "0", "0")
    shown.columns = [f"λ = {name}" for name in shown.columns]
    return shown.reset_index().rename(columns={"variant": "regulariser"})


def bought(tables: Tables) -> pd.DataFrame:
    """Changes by regulariser, mean over seeds: its own term, dissimilarity, the rise."""
    columns = {"own_term": "its own term", DISSIMILARITY: DISSIMILARITY,
               "rise_at_half": "rise of loss without half the heads"}  # fmt: skip
    means = tables["changes"].groupby(["task", "variant"], sort=False)[list(columns)].mean()
    shown = means.map(lambda change: words.signed(change, 3) if pd.notna(change) else "")
    return shown.rename(columns=columns).reset_index().rename(columns={"variant": "regulariser"})


def without_heads(tables: Tables, task: str = Task.TRANSLATION) -> pd.DataFrame:
    """Validation loss against the share of heads closed: base, best, worst, and DropHead's V."""
    rows = tables["removed"].query("task == @task")
    gain = tables["changes"].query("task == @task").groupby("variant")["gain_nats"].mean()
    names = dict.fromkeys([NONE, gain.idxmax(), gain.idxmin(), *gain.index.intersection([V])])
    found = rows[rows["variant"].isin(list(names))].groupby(["variant", "share"])["valid_nats"]
    return found.agg(value="mean", low="min", high="max").loc[list(names)].reset_index()


def facts(tables: Tables) -> Facts:
    """The numbers of the prose; an interval is over seeds."""
    quality, choice = tables["quality"].query("chosen"), selected(tables["quality"])
    base = quality[quality["variant"] == NONE].groupby("task")[["bleu", "perplexity"]].mean()
    found: Facts = {
        "seeds": str(quality["seed"].nunique()),
        "base_bleu": f"{base.loc[Task.TRANSLATION, 'bleu']:.1f}",
        "base_perplexity": f"{base.loc[Task.LANGUAGE, 'perplexity']:.0f}",
    }
    least = tables["changes"].groupby("variant")["gain_bleu"].min()
    for row in effects(tables).to_dict("records"):
        key = KEY_OF[row["variant"]]
        found[f"{key}_bleu"] = words.signed(row["value"], 1)
        found[f"{key}_bleu_between"] = words.between(row["low"], row["high"], 1)
        found[f"{key}_bleu_least"] = words.signed(least[row["variant"]], 1)
        if pd.notna(row["paper"]):
            found[f"{key}_paper"] = words.signed(row["paper"])
    for row in effects(tables, Task.LANGUAGE, "gain_nats").to_dict("records"):
        key = KEY_OF[row["variant"]]
        found[f"{key}_language"] = words.signed(row["value"], 3)
        found[f"{key}_language_between"] = words.between(row["low"], row["high"], 3)
    for task, rows in choice.groupby("task", sort=False):
        key = Task(task).name.lower()
        terms = rows[rows["variant"].isin(TERMS)]
        found[f"none_{key}"] = str(int((rows["strength"] == 0).sum()))
        found[f"weakest_{key}"] = str(int((terms["best_strength"] == 0.01).sum()))
        found[f"of_{key}"] = str(len(rows))
    for row in tables["explained"].query("metric == @DISSIMILARITY").to_dict("records"):
        key = Task(row["task"]).name.lower()
        found[f"explained_{key}"] = words.signed(row["correlation"])
        found[f"explained_{key}_between"] = words.between(row["low"], row["high"])
        found[f"explained_{key}_null"] = words.between(row["null_low"], row["null_high"])
    return found
