"""Page 51: distances between attention heads (Clark et al. 2019, section 6), and merging them."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from sklearn.cluster import AgglomerativeClustering
from sklearn.manifold import MDS
from sklearn.metrics import adjusted_rand_score

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._merged_scores import PARAPHRASES, WHOLE, scores
from headbook.chapters.seeing._merging import (
    ALIKE,
    ANY,
    DRAWN,
    LEAST,
    RANDOM,
    REDUNDANT,
    settings,
)
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.gates import NONE
from headbook.heads.collect import collect
from headbook.heads.head_distance import (
    HeadDivergence,
    OffsetProfile,
    contrasts,
    divergences,
    matched_contrasts,
    nearest_in_layer,
    permuted_contrasts,
)
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.effects import NATS, effects, own_batches
from headbook.looking.load import load
from headbook.looking.passes import bar
from headbook.looking.text import text
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import over_seeds, percentile_interval, resampled_mean
from headbook.types import HeadId, UserError

NUMBER = 51
TITLE = "Do heads of a layer resemble each other?"
WORK = "clark2019"
KEYS = ("model", "text", "sentences", "weights")

TRAINED, REDRAWN = "trained", "drawn anew"
CONTRAST, MATCHED, PERMUTED = "contrast", "contrast at like offsets", "contrast, layers permuted"
NEAREST, RAND = "nearest head in own layer", "adjusted Rand index"
ENDS = ["layer", "head", "other_layer", "other_head"]
PERMUTATIONS = 1000
POINTS = 7
"""Numbers of saved maps, evenly spaced up to one map per layer."""


@dataclass(frozen=True)
class Parameters:
    """Models and a text that all of them read, sentences that distances are measured on, and
    sentences behind them on which heads are merged (0: not) with so many random draws; sentences of
    the models' own tasks that are done with half of the maps (0: none)."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    text: str = "ewt-sample"
    sentences: int = 150
    merged: int = 0
    draws: int = 5
    tested: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Distances of every two heads, statistics of layers with nulls, and merging where asked."""
    given = parameters
    if given.sentences < 2 or min(given.merged, given.tested) < 0 or given.draws < 2:
        raise UserError("give 2 or more sentences and draws, 0 or more merged and tested ones")
    every = text(parameters.text).sentences
    pairs, layers, merged, tested = [], [], [], []
    for name in parameters.models:
        model = load(name)
        distances: dict[str, np.ndarray] = {}
        for weights in (TRAINED, REDRAWN):
            found, profiles = measured(model, every[: parameters.sentences], weights)
            labels = {"model": name, "text": parameters.text, "weights": weights,
                      "sentences": parameters.sentences}  # fmt: skip
            distances[weights] = found
            layers += [{**labels, **row} for row in statistics(found, profiles, _layers(model))]
            if weights == TRAINED:
                pairs.append(_pairs(model, found, profiles).assign(**labels))
        held = every[parameters.sentences :][: parameters.merged]
        if held:
            rows = merging(model, distances[TRAINED], held, parameters.draws)
            merged.append(rows.assign(model=name, text=parameters.text, sentences=len(held)))
        if parameters.tested:
            rows = scores(model, _heads(model), distances[TRAINED], halved(_layers(model)),
                          parameters.draws, parameters.tested)  # fmt: skip
            tested.append(rows.assign(model=name))
    tables = {"pairs": pd.concat(pairs, ignore_index=True), "layers": pd.DataFrame(layers)}
    if tested:
        tables["scores"] = pd.concat(tested, ignore_index=True)
    if merged:
        tables["merged"] = pd.concat(merged, ignore_index=True)
        tables["claims"] = claims(tables["layers"], tables["merged"])
    return tables


def measured(
    model: Loaded, sentences: Sequence[str], weights: str
) -> tuple[np.ndarray, np.ndarray]:
    """Divergences of every two heads' maps, and of their profiles of offsets, [head, head]."""
    kind = _heads(model)[0].kind
    measures = HeadDivergence(kind, replicates=0), OffsetProfile(kind)
    ignorant = without_knowledge(model.network, Null.DRAWN, 0)
    with nullcontext() if weights == TRAINED else ignorant:
        collect(model.network, model.batches(sentences, tokens=512), measures, progress=iter)
    maps, profiles = (measure.compute().numpy() for measure in measures)
    return maps, divergences(profiles)


def _heads(model: Loaded) -> list[HeadId]:
    """The heads of the kind that the model starts with: encoder self-attention, mostly."""
    kind = next(iter(model.network.attentions()))[0]
    return [head for head in all_heads(model.network) if head.kind is kind]


def _layers(model: Loaded) -> np.ndarray:
    return np.array([head.layer for head in _heads(model)])


def _pairs(model: Loaded, distances: np.ndarray, profiles: np.ndarray) -> pd.DataFrame:
    heads = _heads(model)
    first, second = np.triu_indices(len(heads), 1)
    places = {"layer": first, "head": first, "other_layer": second, "other_head": second}
    frame = {name: [getattr(heads[at], name.removeprefix("other_")) + 1 for at in places[name]]
             for name in places}  # fmt: skip
    return pd.DataFrame(
        {**frame, "divergence": distances[first, second], "profile": profiles[first, second]}
    )


def statistics(
    distances: np.ndarray, profiles: np.ndarray, layers: np.ndarray
) -> Iterator[dict[str, object]]:
    """One row per statistic and one per gap between layers: value, interval, baseline."""
    for name, values in (
        (CONTRAST, contrasts(distances, layers)),
        (MATCHED, matched_contrasts(distances, profiles, layers)),
        (NEAREST, nearest_in_layer(distances, layers)),
    ):
        low, high = resampled_mean(values, seed=0)
        chance = np.mean([(layers == layer).sum() - 1 for layer in layers]) / (len(layers) - 1)
        yield {"statistic": name, "value": values.mean(), "low": low, "high": high,
               "baseline": chance if name == NEAREST else 0.0}  # fmt: skip
    null = permuted_contrasts(distances, layers, PERMUTATIONS, seed=0)
    low, high = percentile_interval(null)
    yield {"statistic": PERMUTED, "value": null.mean(), "low": low, "high": high, "baseline": 0.0}
    clusters = AgglomerativeClustering(len(set(layers)), metric="precomputed", linkage="average")
    index = adjusted_rand_score(layers, clusters.fit_predict(distances))
    yield {"statistic": RAND, "value": index, "baseline": 0.0}
    first, second = np.triu_indices(len(layers), 1)
    gaps = np.abs(layers[first] - layers[second])
    for gap in sorted(set(gaps)):
        own = distances[first, second][gaps == gap]
        yield {"statistic": f"gap {gap}", "value": own.mean()}


def steps(layers: np.ndarray) -> list[int]:
    """Numbers of saved maps that are compared, up to one map left per layer."""
    most = len(layers) - len(set(layers))
    return sorted({round(most * (at + 1) / POINTS) for at in range(POINTS)} - {0})


def halved(layers: np.ndarray) -> int:
    """The one of these numbers that is nearest to half of the heads."""
    return min(steps(layers), key=lambda count: abs(count / len(layers) - 0.5))


def merging(
    model: Loaded, distances: np.ndarray, sentences: Sequence[str], draws: int
) -> pd.DataFrame:
    """Loss added, or distance of the sentence vector, by way and number of maps saved."""
    heads, batches = _heads(model), own_batches(model, sentences)
    merges = steps(_layers(model))
    single = effects(model, batches, [partial(closed, model.network, [head]) for head in heads])
    ways = list(settings(model.network, heads, distances, single.mean.numpy(), merges, draws))
    show = partial(bar, what="merging heads", unit="setting")
    found = effects(model, batches, [way[-1] for way in ways], show)
    rows = []
    for (way, count, draw, _), value, added in zip(ways, found.mean.tolist(), found.added,
                                                   strict=True):  # fmt: skip
        scaled = (added / found.weights.mean()).numpy()
        low, high = resampled_mean(scaled, seed=0)
        rows.append({"way": way, "saved": count, "share": count / len(heads), "draw": draw,
                     "unit": found.unit, "value": value, "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows)


def claims(layers: pd.DataFrame, merged: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and model; closeness over heads, merging over draws."""
    rows = []
    found = layers.set_index(["model", "weights", "statistic"])
    for model in dict.fromkeys(layers["model"]):
        for claim, statistic in (
            ("alike-within-layer", CONTRAST),
            ("alike-beyond-offsets", MATCHED),
        ):
            trained, redrawn = (found.loc[(model, each, statistic)] for each in (TRAINED, REDRAWN))
            blunt = redrawn["low"] > 0
            shut = "diagnostic: with weights drawn anew it passes, too"
            rows.append(released_claim(claim, model, *trained[["value", "low", "high"]],
                                       closed=shut if blunt else NONE))  # fmt: skip
    for model, own in merged.groupby("model", sort=False):
        middle = own[own["saved"] == halfway(own)].set_index("way")["value"]
        for claim, other in (("alike-merge-over-random", RANDOM), ("alike-merge-over-remove", ANY)):
            spared = over_seeds(1 - middle[ALIKE] / middle[other])
            rows.append(released_claim(claim, model, spared.mean, spared.low, spared.high))
    return claims_table(rows)


def halfway(merged: pd.DataFrame) -> int:
    """The number of saved maps nearest to half of the heads."""
    return int(merged.loc[(merged["share"] - 0.5).abs().idxmin(), "saved"])


def mapped(tables: Tables, model: str) -> pd.DataFrame:
    """Every head on a plane, distances by metric multidimensional scaling; column `stress`."""
    own = tables["pairs"].query("model == @model")
    own = own[own["sentences"] == own["sentences"].max()]
    columns = [["layer", "head"], ["other_layer", "other_head"]]
    ends = [[*map(tuple, own[each].to_numpy())] for each in columns]
    heads = sorted({*ends[0], *ends[1]})
    place = {head: at for at, head in enumerate(heads)}
    distances = np.zeros((len(heads), len(heads)))
    for one, other, value in zip(*ends, own["divergence"], strict=True):
        distances[place[one], place[other]] = distances[place[other], place[one]] = value
    scaling = MDS(2, metric="precomputed", init="classical_mds", n_init=1, random_state=0,
                  normalized_stress=True)  # fmt: skip
    at = scaling.fit_transform(distances)
    return pd.DataFrame(heads, columns=["layer", "head"]).assign(
        x=at[:, 0], y=at[:, 1], stress=scaling.stress_
    )


def middle(tables: Tables) -> pd.DataFrame:
    """Effect at half of the maps, mean over draws: one row per model, a column per way."""
    rows = [own[own["saved"] == halfway(own)] for _, own in tables["merged"].groupby("model")]
    return pd.concat(rows).pivot_table(index="model", columns="way", values="value")


def nearest_pairs(tables: Tables, count: int = 6) -> pd.DataFrame:
    """The most similar heads of each model."""
    rows = tables["pairs"].sort_values("divergence").groupby("model", sort=False).head(count)
    rows = rows.drop_duplicates(["model", *ENDS])
    one, other = (
        [words.head(*pair) for pair in rows[ENDS[at : at + 2]].itertuples(index=False)]
        for at in (0, 2)
    )
    return pd.DataFrame({
        "model": rows["model"].replace(words.TITLES), "head": one, "other head": other,
        "divergence": rows["divergence"].map("{:.3f}".format),
        "of offsets": rows["profile"].map("{:.3f}".format),
    })  # fmt: skip


def by_way(tables: Tables, model: str) -> pd.DataFrame:
    """Merging and removing by the share of maps saved: mean over draws, range of the draws."""
    own = tables["merged"].query("model == @model")
    drawn = own[own["way"].isin(DRAWN)].groupby(["way", "share"], sort=False)["value"]
    drawn = drawn.agg(value="mean", low="min", high="max").reset_index()
    fixed = own[~own["way"].isin(DRAWN)][["way", "share", "value", "low", "high"]]
    both = pd.concat([fixed, drawn])
    order = [ALIKE, RANDOM, REDUNDANT, ANY, LEAST]
    return both.sort_values(["way", "share"], key=lambda each: each.map(order.index)
                            if each.name == "way" else each)  # fmt: skip


def summary(tables: Tables) -> pd.DataFrame:
    """One row per model and weights, a column per statistic."""
    rows = tables["layers"]
    rows = rows[~rows["statistic"].str.startswith("gap")]
    wide = rows.pivot(index=["model", "weights"], columns="statistic", values="value")
    wide = wide[[CONTRAST, PERMUTED, MATCHED, NEAREST, RAND]].map("{:.3f}".format)
    wide = wide.reset_index().rename_axis(columns=None)
    return wide.assign(model=wide["model"].replace(words.TITLES))


def tasks(tables: Tables) -> pd.DataFrame:
    """Scores of the models' own tasks with half of the maps; of draws the mean, and their range."""
    rows = []
    for (model, way), own in tables["scores"].groupby(["model", "way"], sort=False):
        mean, drawn = own[["value", "change"]].mean(), way in DRAWN
        low, high = ((own["change"].min(), own["change"].max()) if drawn
                     else own[["low", "high"]].iloc[0])  # fmt: skip
        scale, digits = (100, 0) if own["score"].iloc[0] == PARAPHRASES else (1, 1)
        rows.append({
            "model": words.TITLES.get(model, model), "score": own["score"].iloc[0],
            "maps": "its own" if way == WHOLE else way, "value": _shown(own, mean["value"]),
            "change": "" if way == WHOLE else words.difference(
                *(scale * each for each in (mean["change"], low, high)), digits),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _shown(rows: pd.DataFrame, value: float) -> str:
    return words.percent(value) if rows["score"].iloc[0] == PARAPHRASES else f"{value:.1f}"


def gaps(tables: Tables, weights: str = TRAINED) -> pd.DataFrame:
    """Mean distance by the number of layers between two heads."""
    rows = tables["layers"].query("weights == @weights")
    rows = rows[rows["statistic"].str.startswith("gap")]
    return rows.assign(gap=rows["statistic"].str.removeprefix("gap ").astype(int),
                       model=rows["model"].replace(words.TITLES))  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, by model."""
    found: Facts = {"sentences": words.count(tables["layers"]["sentences"].max())}
    for row in tables["layers"].to_dict("records"):
        if row["statistic"] in FACTS:
            name = f"{row['model']}_{FACTS[row['statistic']]}".replace("-", "_")
            name += "" if row["weights"] == TRAINED else "_redrawn"
            plain = row["statistic"] in (NEAREST,)
            found[name] = words.percent(row["value"]) if plain else words.signed(row["value"])
            if plain:
                found[f"{name}_estimate"] = words.estimate(row["value"], row["low"], row["high"])
                found[f"{name}_chance"] = words.percent(row["baseline"])
            elif pd.notna(row["low"]):
                found[f"{name}_interval"] = words.between(row["low"], row["high"])
    for model, own in tables.get("merged", pd.DataFrame({"model": []})).groupby("model"):
        name, count = str(model).replace("-", "_"), halfway(own)
        middle = own[own["saved"] == count].groupby("way")["value"].mean()
        found |= {f"{name}_{key}": f"{middle[way]:.3f}" for way, key in WAYS.items()}
        found |= _ranges(own[own["saved"] == count], name)
        found |= {f"{name}_saved": str(count), "draws": str(own["draw"].max() + 1),
                  "merged_sentences": words.count(own["sentences"].max())}  # fmt: skip
        last = own[own["saved"] == own["saved"].max()].groupby("way")["value"].mean()
        found |= {f"{name}_most": str(own["saved"].max()),
                  f"{name}_most_least": f"{last[LEAST]:.2f}"}  # fmt: skip
        found |= {f"{name}_unit": "nats per token" if own["unit"].iloc[0] == NATS else "cosine"}
    for (model, way), own in tables.get("scores", NO_SCORES).groupby(["model", "way"]):
        name = str(model).replace("-", "_")
        key = "whole" if way == WHOLE else WAYS[way]
        found[f"{name}_task_{key}"] = _shown(own, own["value"].mean())
        found["tested"] = words.count(own["tested"].iloc[0])
    return found


def _ranges(rows: pd.DataFrame, name: str) -> Facts:
    """The loss added, with its interval over sentences for one choice, with its range for draws."""
    (alike,) = rows[rows["way"] == ALIKE][["value", "low", "high"]].to_numpy()
    drawn = {WAYS[way]: rows.loc[rows["way"] == way, "value"] for way in (RANDOM, ANY)}
    return {
        f"{name}_alike_estimate": words.number(*alike),
        **{f"{name}_{key}_range": f"{values.min():.2f} to {values.max():.2f}"
           for key, values in drawn.items()},
    }  # fmt: skip


FACTS = {CONTRAST: "contrast", MATCHED: "matched", NEAREST: "nearest", RAND: "rand"}
NO_SCORES = pd.DataFrame({"model": [], "way": []})
WAYS = {ALIKE: "alike", RANDOM: "random", REDUNDANT: "redundant", ANY: "any", LEAST: "least"}
