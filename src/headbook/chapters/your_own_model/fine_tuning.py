"""Page 61: heads before and after fine-tuning on the sentiment of sentences."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import stacked
from headbook.chapters.your_own_model import _retrained as pruning
from headbook.chapters.your_own_model._tuned import (
    Classifier,
    Sentences,
    distance,
    encoder_heads,
    importance,
    maps,
    preferences,
    probed,
    scored,
    thirds,
    tuned,
)
from headbook.chapters.your_own_model._tuning_claims import (
    BEFORE,
    SHUFFLED,
    TRUE,
    TWICE,
    claims,
    contributions,
    gained,
)
from headbook.corpora.rated import Rated, decided, load_rated, spread
from headbook.looking.load import load
from headbook.looking.measure import measure
from headbook.looking.roles import roles
from headbook.looking.text import text
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.types import Kind

NUMBER = 61
TITLE = "What does fine-tuning do to heads?"
WORK = "kovaleva2019"
KEYS = ("model", "labels", "seed", "sentences")

LONGEST = 25
"""Words of a sentence: longer ones are left out, as they take most of the time."""
NAMES = {TRUE: "fine-tuned on sentiment", SHUFFLED: "fine-tuned on shuffled labels",
         TWICE: "between two trainings"}  # fmt: skip
PARSED = 100
"""Sentences of the sample that roles are read off."""


@dataclass(frozen=True)
class Parameters:
    """Models with an encoder, trainings (0: none, published tables are shown), rated text,
    sentences that are trained on and tested with, passes over them, and test sentences for heads
    that are removed before fine-tuning (0: none are)."""

    models: tuple[str, ...] = ("minilm",)
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
    each = [_of_model(name, parameters, splits, store) for name in parameters.models]
    return {name: stacked(tables[name] for tables in each) for name in each[0]}


def _of_model(
    name: str, parameters: Parameters, splits: Mapping[str, Sequence[Rated]], store: Store
) -> Tables:
    """All tables of one model."""
    test = Sentences(spread(_short(splits["test"]), parameters.sentences))
    heads, scores, seen = [], [], {}
    for seed in range(parameters.seeds):
        drawn = random.Random(seed).sample(_short(splits["train"]), parameters.train)
        shuffled = _shuffled(drawn, seed)
        for labels, sentences in ((BEFORE, drawn), (TRUE, drawn), (SHUFFLED, shuffled)):
            model = load(name)
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
        "roles": _roles(name),
    }
    labels = {"model": name, "corpus": parameters.corpus,
              "sentences": len(test.texts), "train": parameters.train}  # fmt: skip
    if parameters.tested:
        tables["retrained"] = _retrained(name, parameters, splits, store)
    tables = {of: table.assign(**labels) for of, table in tables.items()}
    positive = float(test.labels.mean())
    return {**tables, "claims": claims(tables, max(positive, 1 - positive))}


def _retrained(
    model: str, parameters: Parameters, splits: Mapping[str, Sequence[Rated]], store: Store
) -> pd.DataFrame:
    """Scores with sets of heads removed before and after fine-tuning, one row per set and seed."""
    test = Sentences(spread(_short(splits["test"]), parameters.tested))
    found = []
    for seed in range(parameters.seeds):
        drawn = random.Random(seed).sample(_short(splits["train"]), parameters.train)
        for name in (pruning.NONE, *pruning.SETS):
            run = pruning.Retraining(model, parameters.corpus, parameters.train,
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
    drawn = random.Random(seed).sample(encoder_heads(found.model), len(parts["early"]))
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
    """The encoder heads that hold a role before fine-tuning, on sentences with gold trees."""
    found = measure(load(name), text("ewt-sample", first=PARSED), importance=False, nulls=0,
                    diverse=False, progress=False)  # fmt: skip
    rows = roles(found[found["kind"] == Kind.ENCODER])
    return pd.DataFrame(rows[["layer", "head", "role", "detail", "score"]].to_dict("list"))


def of_model(tables: Tables, model: str) -> Tables:
    """The rows of one model; claims are left out."""
    return {name: table[table["model"] == model] for name, table in tables.items()
            if name != "claims"}  # fmt: skip


def by_layer(tables: Tables, model: str) -> pd.DataFrame:
    """Distance moved, mean over a layer's heads: mean over trainings and interval."""
    moved = of_model(tables, model)["moved"]
    mean = moved.groupby(["labels", "layer", "seed"], sort=False)["distance"].mean()
    rows = []
    for (labels, layer), own in mean.groupby(["labels", "layer"], sort=False):
        found = over_seeds(own)
        rows.append({"moved": NAMES[labels], "layer": layer, "value": found.mean,
                     "low": max(found.low, 0.0), "high": found.high})  # fmt: skip
    return pd.DataFrame(rows)


def change(tables: Tables, column: str, model: str) -> pd.DataFrame:
    """Every head's value with true labels minus that before, mean over trainings."""
    heads = of_model(tables, model)["heads"]
    mean = heads.groupby(["labels", "layer", "head"])[column].mean()
    return (mean[TRUE] - mean[BEFORE]).rename(column).reset_index()


def removals(tables: Tables) -> pd.DataFrame:
    """Accuracy and cross-entropy without the heads of some layers, before and after: means."""
    by = ["model", "labels", "removed"]
    mean = tables["removed"].groupby(by, sort=False)[["accuracy", "nats"]].mean()
    found = mean.unstack("labels", sort=False)
    found.columns = [f"{name}, {labels}" for name, labels in found.columns]
    shown = found.map("{:.2f}".format).reset_index().replace({"model": words.TITLES})
    return shown.rename(columns={"removed": "heads removed"})


def before_and_after(tables: Tables) -> pd.DataFrame:
    """Scores without a third of the heads, removed after or before fine-tuning: a row per set.

    Differences from the whole fine-tuned encoder, mean over trainings and 95 % interval.
    """
    found = []
    for model in tables["retrained"]["model"].unique():
        title = words.TITLES.get(model, model)
        rows = {name: {"model": title, "heads removed": name} for name in pruning.SETS}
        for score, shown in (("accuracy", words.points), ("nats", words.signed)):
            for (when, name), own in gained(of_model(tables, model), score).items():
                mean = over_seeds(own)
                ends = words.interval if score == "accuracy" else words.between
                rows[name][f"{score}, {when}"] = f"{shown(mean.mean)} {ends(mean.low, mean.high)}"
        found += rows.values()
    return pd.DataFrame(found)


def turned(tables: Tables) -> pd.DataFrame:
    """Preference for polar words and negators, mean over heads and trainings."""
    mean = tables["heads"].groupby(["model", "labels"], sort=False)[["polar", "negators"]].mean()
    shown = mean.map("{:.2f}".format).reset_index().replace({"model": words.TITLES})
    return shown.rename(columns={"labels": "fine-tuning"})


def held(tables: Tables) -> pd.DataFrame:
    """The heads that held a role before, as tables name them."""
    rows = tables["roles"].sort_values(["model", "layer", "head"])
    detail = rows["detail"].str.replace("_dependent_to_head", ", dependent → head")
    detail = detail.str.replace("_head_to_dependent", ", head → dependent").str.replace("-", "−")
    names = [words.head(*each) for each in zip(rows["layer"], rows["head"], strict=True)]
    return pd.DataFrame({"model": rows["model"].replace(words.TITLES), "head": names,
                         "role": rows["role"], "detail": detail})  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, means over trainings; those of a model begin with its name."""
    first = tables["heads"].iloc[0]
    found: Facts = {
        "train": words.count(first["train"]),
        "sentences": str(first["sentences"]),
        "trainings": str(tables["heads"].query("labels == @TRUE")["seed"].nunique()),
    }
    if "retrained" in tables:
        found["tested"] = words.count(tables["retrained"]["tested"].iloc[0])
    found["larger_class"] = _larger_class(tables["claims"])
    for model in tables["heads"]["model"].unique():
        own, short = of_model(tables, model), str(model).replace("-", "_")
        each = _of_encoder(own) | (_of_retrained(own) if len(own.get("retrained", ())) else {})
        found |= {f"{short}_{name}": value for name, value in each.items()}
    for row in tables["claims"].query("claim == 'tuning-negation'").itertuples():
        shown = words.difference(row.value, row.low, row.high, 3)
        found[f"{row.model.replace('-', '_')}_negation_estimate"] = shown
    return found


def _larger_class(claims: pd.DataFrame) -> str:
    """Its share of the test sentences, as the reason of a closed gate has it: chance accuracy."""
    reasons = claims["closed"].astype(str)
    shares = reasons.str.extract(r"larger class has (\d+)\s*%", expand=False).dropna()
    return words.percent(int(shares.iloc[0]) / 100) if len(shares) else "not recorded"


def _of_encoder(tables: Tables) -> Facts:
    """Of one model: how far heads moved, what they prefer, and what they contribute."""
    heads, removed = tables["heads"], tables["removed"]
    found: Facts = {}
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
    return found | {"with_role": str(len(special)), "above": str(len(above))}


def _of_retrained(tables: Tables) -> Facts:
    """Of one model: cost of removal before and after it; `whole` is the fine-tuned encoder."""
    rows = tables["retrained"]
    mean = rows.groupby(["when", "removed"])[["accuracy", "nats"]].mean()
    whole = mean.loc[(pruning.AFTER, pruning.NONE)]
    found: Facts = {
        "whole_accuracy": words.percent(whole["accuracy"]),
        "whole_nats": f"{whole['nats']:.2f}",
    }
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
