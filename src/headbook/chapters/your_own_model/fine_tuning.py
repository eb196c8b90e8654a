"""Page 61: heads before and after fine-tuning on the sentiment of sentences."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, released_claim
from headbook.chapters.your_own_model import _retrained as pruning
from headbook.chapters.your_own_model._tuned import (
    Classifier,
    Sentences,
    distance,
    importance,
    maps,
    preferences,
    probed,
    scored,
    thirds,
    tuned,
)
from headbook.claims.gates import NONE
from headbook.claims.ledger import Gate
from headbook.corpora.rated import Rated, decided, load_rated, spread
from headbook.looking.load import load
from headbook.looking.measure import measure
from headbook.looking.roles import roles
from headbook.looking.text import text
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.statistics import over_seeds

NUMBER = 61
TITLE = "What does fine-tuning do to heads?"
WORK = "kovaleva2019"
KEYS = ("model", "labels", "seed", "sentences")

BEFORE, TRUE, SHUFFLED = "before", "true labels", "shuffled labels"
TWICE = "two trainings"
LONGEST = 25
"""Words of a sentence: longer ones are left out, as they take most of the time."""
NAMES = {TRUE: "fine-tuned on sentiment", SHUFFLED: "fine-tuned on shuffled labels",
         TWICE: "between two trainings"}  # fmt: skip
PARSED = 100
"""Sentences of the sample that roles are read off."""
FEWEST = 3
"""Heads with a role that the upper half of the layers needs, so that one does not stand for all."""
POLAR_HEADS = 0.25
"""Share of the heads that count as turned to polar words: those with the largest preference."""


@dataclass(frozen=True)
class Parameters:
    """An encoder, trainings (0: none, published tables are shown), rated text, sentences that are
    trained on and tested with, passes over them, and test sentences for heads that are removed
    before fine-tuning (0: none are)."""

    model: str = "minilm"
    seeds: int = 0
    corpus: str = "sst"
    train: int = 800
    sentences: int = 120
    epochs: int = 1
    tested: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Heads before and after, how far each moved, accuracy with heads removed, roles, claims."""
    if not parameters.seeds:
        return {}
    splits = load_rated(parameters.corpus)
    test = Sentences(spread(_short(splits["test"]), parameters.sentences))
    heads, scores, seen = [], [], {}
    for seed in range(parameters.seeds):
        drawn = random.Random(seed).sample(_short(splits["train"]), parameters.train)
        shuffled = _shuffled(drawn, seed)
        for labels, sentences in ((BEFORE, drawn), (TRUE, drawn), (SHUFFLED, shuffled)):
            model = load(parameters.model)
            train = Sentences(sentences)
            found = (probed(model, train) if labels == BEFORE
                     else tuned(model, train, seed, parameters.epochs))  # fmt: skip
            named = {"labels": labels, "seed": str(seed)}
            heads += [{**named, **row} for row in _head_rows(found, test)]
            if labels != SHUFFLED:
                scores += [{**named, **row} for row in _scores(found, test, seed)]
            seen[labels, seed] = list(maps(model, test))
    tables = {
        "heads": pd.DataFrame(heads),
        "removed": pd.DataFrame(scores),
        "moved": pd.DataFrame(_moved(seen, range(parameters.seeds))),
        "roles": _roles(parameters.model),
    }
    labels = {"model": parameters.model, "corpus": parameters.corpus,
              "sentences": len(test.texts), "train": parameters.train}  # fmt: skip
    if parameters.tested:
        tables["retrained"] = _retrained(parameters, splits, store)
    tables = {name: table.assign(**labels) for name, table in tables.items()}
    return {**tables, "claims": claims(tables)}


def _retrained(
    parameters: Parameters, splits: Mapping[str, Sequence[Rated]], store: Store
) -> pd.DataFrame:
    """Scores with sets of heads removed before and after fine-tuning, one row per set and seed."""
    test = Sentences(spread(_short(splits["test"]), parameters.tested))
    found = []
    for seed in range(parameters.seeds):
        drawn = random.Random(seed).sample(_short(splits["train"]), parameters.train)
        for name in (pruning.NONE, *pruning.SETS):
            run = pruning.Retraining(parameters.model, parameters.corpus, parameters.train,
                                     parameters.epochs, parameters.tested, seed, name)  # fmt: skip
            rows = pruning.retrained(run, Sentences(drawn), test, store)
            when = pruning.AFTER if name == pruning.NONE else pruning.BEFORE
            found.append(rows.assign(when=when, seed=str(seed), tested=parameters.tested))
    return pd.concat(found, ignore_index=True)


def _short(sentences: Sequence[Rated]) -> list[Rated]:
    return [each for each in decided(sentences) if len(each.words) <= LONGEST]


def _shuffled(sentences: Sequence[Rated], seed: int) -> list[Rated]:
    """The same sentences, each with the rating of another."""
    ratings = [each.rating for each in sentences]
    random.Random(1000 + seed).shuffle(ratings)
    return [
        Rated(each.words, each.ratings, rating)
        for each, rating in zip(sentences, ratings, strict=True)
    ]


def _head_rows(found: Classifier, test: Sentences) -> Iterator[dict[str, object]]:
    values = {**preferences(found.model, test), "importance": importance(found, test)}
    for layer, head in np.ndindex(values["polar"].shape):
        yield {"layer": layer + 1, "head": head + 1,
               **{name: float(each[layer, head]) for name, each in values.items()}}  # fmt: skip


def _scores(found: Classifier, test: Sentences, seed: int) -> Iterator[dict[str, object]]:
    parts = thirds(found.model)
    heads = all_heads(found.model.network)
    drawn = random.Random(seed).sample(heads, len(parts["early"]))
    for name, removed in {"none": [], **parts, "as many at random": drawn}.items():
        accuracy, nats = scored(found, test, removed)
        yield {"removed": name, "accuracy": accuracy, "nats": nats}


def _moved(seen: dict, seeds: Sequence[int]) -> Iterator[dict[str, object]]:
    """Distance of each head's weights: after from before, and between two trainings."""
    compared = [(labels, str(seed), (BEFORE, seed), (labels, seed))
                for labels in (TRUE, SHUFFLED) for seed in seeds]  # fmt: skip
    compared += [(TWICE, f"{a}-{b}", (TRUE, a), (TRUE, b)) for a, b in combinations(seeds, 2)]
    for labels, seed, one, other in compared:
        apart = distance(seen[one], seen[other])
        for (layer, head), value in np.ndenumerate(apart):
            yield {"labels": labels, "seed": seed, "layer": layer + 1, "head": head + 1,
                   "distance": float(value)}  # fmt: skip


def _roles(name: str) -> pd.DataFrame:
    """The heads that hold a role before fine-tuning, on sentences with gold trees."""
    found = measure(load(name), text("ewt-sample", first=PARSED), importance=False, nulls=0,
                    progress=False)  # fmt: skip
    rows = roles(found)[["layer", "head", "role", "detail", "score"]]
    return pd.DataFrame(rows.to_dict("list"))


def claims(tables: Tables) -> pd.DataFrame:
    """One row per claim, intervals over trainings."""
    model, corpus = (tables["heads"][name].iloc[0] for name in ("model", "corpus"))
    rows: list[dict[str, object]] = []

    def add(claim: str, values: pd.Series, closed: str = NONE) -> None:
        found = over_seeds(np.asarray(values, dtype=float))
        rows.append(released_claim(claim, model, found.mean, found.low, found.high,
                                   corpus=corpus, closed=closed))  # fmt: skip

    moved = tables["moved"]
    by_layer = moved[moved["labels"] == TRUE].groupby(["seed", "layer"])["distance"].mean()
    by_layer = by_layer.unstack()
    third = max(by_layer.shape[1] // 3, 1)
    last, others = by_layer.iloc[:, -third:], by_layer.iloc[:, :-third]
    add("tuning-last-layers", last.mean(axis=1) - others.mean(axis=1))
    means = moved.groupby(["labels", "seed"])["distance"].mean()
    add("tuning-beyond-shuffled", means[TRUE] - means[SHUFFLED])
    add("tuning-beyond-seeds", means[TRUE] - means[TWICE].mean())
    wide = tables["heads"].groupby(["labels", "seed"])[["polar", "negators"]].mean()
    for claim, name in (("tuning-polar", "polar"), ("tuning-negation", "negators")):
        add(claim, wide.loc[TRUE, name] - wide.loc[SHUFFLED, name])
    nats = tables["removed"].pivot(index=["labels", "seed"], columns="removed", values="nats")
    add("tuning-late-heads", nats.loc[TRUE, "late"] - nats.loc[TRUE, "early"])
    after = tables["heads"].query("labels == @TRUE")
    ratios = contributions(after, tables["roles"])
    add("tuning-specialised-contribute", ratios["all"])
    special = tables["roles"].drop_duplicates(["layer", "head"])
    above = int((special["layer"] > after["layer"].max() // 2).sum())
    few = f"{Gate.PRESENT}: {above} of the upper half's heads hold a role, {FEWEST} are needed"
    add("tuning-specialised-later", ratios["upper"] - ratios["lower"],
        few if above < FEWEST else NONE)  # fmt: skip
    add("tuning-polar-heads", ratios["polar"])
    if "retrained" in tables:
        cost = gained(tables, "nats")
        add("tuning-removed-before", cost[pruning.AFTER].mean(axis=1)
            - cost[pruning.BEFORE].mean(axis=1))  # fmt: skip
        accuracy = gained(tables, "accuracy")[pruning.BEFORE]
        add("tuning-random-nearly-whole", accuracy[pruning.DRAWN])
        thirds_alone = accuracy.drop(columns=pruning.DRAWN)
        worst = thirds_alone[thirds_alone.mean().idxmin()]
        add("tuning-any-third", worst - accuracy[pruning.DRAWN])
    return claims_table(rows)


def gained(tables: Tables, score: str) -> pd.DataFrame:
    """A score without each set minus that of the whole fine-tuned encoder.

    One row per seed, columns (when, removed): before fine-tuning, or after it.
    """
    wide = tables["retrained"].pivot(index="seed", columns=["when", "removed"], values=score)
    whole = wide.pop((pruning.AFTER, pruning.NONE))
    return wide.sub(whole, axis=0)


def contributions(heads: pd.DataFrame, of_roles: pd.DataFrame) -> pd.DataFrame:
    """Log₂ of the importance of special heads over that of the others of their layer, per seed.

    `all`, `lower`, `upper`: heads that hold a role, in all layers, in the lower and in the upper
    half; `polar`: those with the largest preference for polar words. Mean over layers that have
    heads of both sorts.
    """
    special = set(zip(of_roles["layer"], of_roles["head"], strict=True))
    found = []
    for seed, own in heads.groupby("seed"):
        own = own.assign(
            special=[key in special for key in zip(own["layer"], own["head"], strict=True)],
            turned=own["polar"] >= own["polar"].quantile(1 - POLAR_HEADS),
        )
        half = own["layer"].max() // 2
        found.append({
            "seed": seed,
            "all": _ratio(own, "special"),
            "lower": _ratio(own[own["layer"] <= half], "special"),
            "upper": _ratio(own[own["layer"] > half], "special"),
            "polar": _ratio(own, "turned"),
        })  # fmt: skip
    return pd.DataFrame(found).set_index("seed")


def _ratio(own: pd.DataFrame, column: str) -> float:
    mean = own.groupby(["layer", column])["importance"].mean().unstack()
    if mean.shape[1] < 2:
        return float("nan")
    return float(np.log2(mean[True] / mean[False]).mean())


def by_layer(tables: Tables) -> pd.DataFrame:
    """Distance moved, mean over a layer's heads: mean over trainings and interval."""
    mean = tables["moved"].groupby(["labels", "layer", "seed"], sort=False)["distance"].mean()
    rows = []
    for (labels, layer), own in mean.groupby(["labels", "layer"], sort=False):
        found = over_seeds(own)
        rows.append({"moved": NAMES[labels], "layer": layer, "value": found.mean,
                     "low": max(found.low, 0.0), "high": found.high})  # fmt: skip
    return pd.DataFrame(rows)


def change(tables: Tables, column: str) -> pd.DataFrame:
    """Every head's value with true labels minus that before, mean over trainings."""
    mean = tables["heads"].groupby(["labels", "layer", "head"])[column].mean()
    return (mean[TRUE] - mean[BEFORE]).rename(column).reset_index()


def removals(tables: Tables) -> pd.DataFrame:
    """Accuracy and cross-entropy without the heads of some layers, before and after: means."""
    mean = tables["removed"].groupby(["labels", "removed"], sort=False)[["accuracy", "nats"]].mean()
    found = mean.unstack("labels")
    found.columns = [f"{name}, {labels}" for name, labels in found.columns]
    return found.map("{:.2f}".format).reset_index().rename(columns={"removed": "heads removed"})


def before_and_after(tables: Tables) -> pd.DataFrame:
    """Scores without a third of the heads, removed after or before fine-tuning: one row per set.

    Differences from the whole fine-tuned encoder, mean over trainings and 95 % interval.
    """
    rows: dict[str, dict[str, str]] = {name: {"heads removed": name} for name in pruning.SETS}
    for score, shown in (("accuracy", words.points), ("nats", words.signed)):
        for (when, name), own in gained(tables, score).items():
            found = over_seeds(own)
            ends = (words.interval if score == "accuracy" else words.between)(found.low, found.high)
            rows[name][f"{score}, {when}"] = f"{shown(found.mean)} {ends}"
    return pd.DataFrame(rows.values())


def turned(tables: Tables) -> pd.DataFrame:
    """Preference for polar words and negators, mean over heads and trainings."""
    mean = tables["heads"].groupby("labels", sort=False)[["polar", "negators"]].mean()
    return mean.map("{:.2f}".format).reset_index().rename(columns={"labels": "fine-tuning"})


def held(tables: Tables) -> pd.DataFrame:
    """The heads that held a role before, as tables name them."""
    rows = tables["roles"].sort_values(["layer", "head"])
    detail = rows["detail"].str.replace("_dependent_to_head", ", dependent → head")
    detail = detail.str.replace("_head_to_dependent", ", head → dependent").str.replace("-", "−")
    names = [words.head(*each) for each in zip(rows["layer"], rows["head"], strict=True)]
    return pd.DataFrame({"head": names, "role": rows["role"], "detail": detail})


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, means over trainings."""
    heads, removed = tables["heads"], tables["removed"]
    found: Facts = {
        "train": words.count(heads["train"].iloc[0]),
        "sentences": str(heads["sentences"].iloc[0]),
        "trainings": str(heads.query("labels == @TRUE")["seed"].nunique()),
    }
    keys = {BEFORE: "before", TRUE: "true", SHUFFLED: "shuffled", TWICE: "twice"}
    layers = tables["moved"].groupby(["labels", "layer"])["distance"].mean()
    for labels in (TRUE, SHUFFLED, TWICE):
        own = layers[labels]
        found[f"{keys[labels]}_moved"] = f"{own.mean():.2f}"
        found[f"{keys[labels]}_first"] = f"{own.iloc[0]:.2f}"
        found[f"{keys[labels]}_last"] = f"{own.iloc[-1]:.2f}"
    mean = heads.groupby("labels")[["polar", "negators"]].mean()
    found |= {f"{name}_{keys[labels]}": f"{mean.loc[labels, name]:.2f}"
              for labels in mean.index for name in mean}  # fmt: skip
    scores = removed.groupby(["labels", "removed"])[["accuracy", "nats"]].mean()
    for labels, without in scores.index:
        key = f"{keys[labels]}_{without.split()[0]}"
        found[f"{key}_accuracy"] = words.percent(scores.loc[(labels, without), "accuracy"])
        found[f"{key}_nats"] = f"{scores.loc[(labels, without), 'nats']:.2f}"
    ratios = contributions(heads.query("labels == @TRUE"), tables["roles"]).mean()
    found |= {f"{name}_ratio": f"{2**value:.2f}" for name, value in ratios.items()}
    special = tables["roles"].drop_duplicates(["layer", "head"])
    above = special[special["layer"] > heads["layer"].max() // 2]
    found |= {"with_role": str(len(special)), "above": str(len(above))}
    return found | (_of_retrained(tables) if "retrained" in tables else {})


def _of_retrained(tables: Tables) -> Facts:
    """Cost of removal before and after fine-tuning; `whole` is the fine-tuned encoder."""
    rows = tables["retrained"]
    mean = rows.groupby(["when", "removed"])[["accuracy", "nats"]].mean()
    whole = mean.loc[(pruning.AFTER, pruning.NONE)]
    found: Facts = {"tested": words.count(rows["tested"].iloc[0]),
                    "whole_accuracy": words.percent(whole["accuracy"]),
                    "whole_nats": f"{whole['nats']:.2f}"}  # fmt: skip
    cost = gained(tables, "nats")
    lost = gained(tables, "accuracy")
    for when, key in ((pruning.AFTER, "cut_after"), (pruning.BEFORE, "cut_before")):
        found[f"{key}_nats"] = f"{cost[when].mean(axis=1).mean():.2f}"
        for name in pruning.SETS:
            short = name.split()[-1]
            found[f"{key}_{short}"] = words.points(lost[when][name].mean())
            found[f"{key}_{short}_accuracy"] = words.percent(mean.loc[(when, name), "accuracy"])
            found[f"{key}_{short}_nats"] = words.signed(cost[when][name].mean())
    return found
