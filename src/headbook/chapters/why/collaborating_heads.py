"""Page 41: heads that share query-key dimensions (Cordonnier, Loukas and Jaggi 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm import tqdm

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, mean_claim, released_claim
from headbook.chapters.why import _collaborating_from_scratch as scratch
from headbook.corpora.batches import Batch
from headbook.corpora.readers import load as corpus
from headbook.looking.collaborating import (
    Decomposition,
    Terms,
    factors,
    kept_terms,
    left_over,
    reparametrised,
    separate_terms,
)
from headbook.looking.load import load
from headbook.looking.text import text
from headbook.looking.weights import projections
from headbook.models.collaborative import Factors, concatenated
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import resampled_mean
from headbook.training.paired import Statistics, corpus_bleu, paired, statistics
from headbook.types import Kind, UserError

NUMBER = 41
TITLE = "Can heads collaborate?"
WORK = "cordonnier2020"
KEYS = ("model", "weights", "way", "dims", "iterations", "sentences", "translated")

PARTS = {"2/3": 2 / 3, "1/2": 1 / 2, "1/3": 1 / 3, "1/4": 1 / 4}
"""Shares of the query-key dimensions that are left."""
CLAIMED = {"2/3", "1/2"}
"""Claims are judged where these are measured."""
SHARED = "shared by the heads"
ALIKE = "separate, each head as many"
LARGEST = "separate, largest of all heads"
ORDINARY = "ordinary heads"
WAYS = (SHARED, LARGEST, ALIKE)
TRAINED, RANDOM = "trained", "random"
PAPER_GLUE, PAPER_TUNED = 83.0, {"1/2": 82.5, "1/3": 81.7}
"""BERT-base, and with fewer dimensions after fine-tuning once more."""
PAPER_EXACT = 1.9e-6
"""Largest error of a BERT at full rank, from the authors' README."""
PAPER_FREE = 1.5
"""Times fewer dimensions at which the work still loses little without further training."""


@dataclass(frozen=True)
class Parameters:
    """Models, shares of the dimensions ("1/2"), iterations of the decomposition, sentences read.

    A translation model of English and Portuguese reads NTREX-128 and translates the first
    `translated` sentences (0: none). Models of a recall task are trained for `updates` (0: none).
    """

    models: tuple[str, ...] = ("minilm",)
    shares: tuple[str, ...] = ("1/4",)
    iterations: int = 12
    sentences: int = 100
    translated: int = 0
    updates: int = 0


@dataclass(frozen=True)
class Place:
    """The self-attention of one encoder layer."""

    layer: int
    heads: int
    query: nn.Linear
    key: nn.Linear

    @property
    def projections(self) -> tuple[Tensor, Tensor]:
        """Of queries and of keys, [head model dim]."""
        query, key = (each.weight.detach().unflatten(0, (self.heads, -1)).mT
                      for each in (self.query, self.key))  # fmt: skip
        return query, key

    @property
    def ordinary(self) -> Factors:
        return concatenated(self.query, self.key, self.heads)

    def factors(self, terms: Terms) -> Factors:
        return factors(terms, self.query, self.key, self.heads)


def compute(parameters: Parameters, store: Store) -> Tables:
    """Errors of weights by layer, costs by model, BLEU, and claims."""
    _require(parameters)
    weights, costs, bleu = [], [], []
    for name in parameters.models:
        model = load(name)
        places = [Place(layer, block.heads, query, key)
                  for kind, layer, block, query, key, _ in projections(model.network)
                  if kind is Kind.ENCODER]  # fmt: skip
        reader = _reader(model, parameters.sentences)
        whole = {place.layer: place.ordinary for place in places}
        width = places[0].query.in_features
        measured = [(ORDINARY, width, whole)]
        for share in parameters.shares:
            dims = round(width * PARTS[share])
            found = list(_decomposed(name, places, dims, parameters.iterations, store))
            weights += [row for *_, row in found]
            weights += _of_random(name, places[0], dims, parameters.iterations, store)
            measured += [
                (way, dims, {place.layer: place.factors(terms)
                             for each, place, terms, _ in found if each == way})
                for way in WAYS
            ]  # fmt: skip
        for way, dims, own in tqdm(measured, desc=f"reading with {name}", mininterval=5):
            labels = {"model": name, "way": way, "dims": dims, "share": dims / width,
                      "parameters": sum(each.parameters for each in own.values())}  # fmt: skip
            with reparametrised(model.network, own):
                costs += [{**labels, "sentence": number, "cost": float(cost)}
                          for number, cost in enumerate(reader.cost())]  # fmt: skip
                if parameters.translated and model.languages[1] and way != LARGEST:
                    score = reader.bleu(parameters.translated)
                    bleu.append(labels | score | {"translated": parameters.translated})
    made = {"iterations": parameters.iterations, "sentences": parameters.sentences}
    per_layer = pd.DataFrame(weights).assign(**made)
    each = pd.DataFrame(costs).assign(**made)
    tables = {"weights": per_layer, "costs": _over_sentences(each)}
    if bleu:
        tables["bleu"] = pd.DataFrame(bleu).assign(**made)
    rows = claims(each, per_layer) if set(parameters.shares) >= CLAIMED else []
    if parameters.updates:
        tables["scratch"] = scratch.from_scratch(parameters.updates)
        rows += scratch.claim_rows(tables["scratch"])
    return tables | ({"claims": claims_table(rows)} if rows else {})


def _require(parameters: Parameters) -> None:
    if unknown := set(parameters.shares) - PARTS.keys():
        raise UserError(f"share {min(unknown)!r} is not known: give some of {', '.join(PARTS)}")
    if parameters.iterations < 1 or parameters.sentences < 2:
        raise UserError("give iterations of 1 or more and sentences of 2 or more")


def _decomposed(
    model: str, places: list[Place], dims: int, iterations: int, store: Store
) -> Iterator[tuple[str, Place, Terms, dict[str, object]]]:
    """Every layer's terms in each way, with a row of the table of weights."""
    for place in tqdm(places, desc=f"{model}, {dims} dimensions", unit="layer", mininterval=5):
        labels = {"model": model, "weights": TRAINED, "layer": place.layer + 1}
        for way, terms, row in _ways(*place.projections, dims, iterations, store):
            yield way, place, terms, labels | row


def _of_random(
    model: str, place: Place, dims: int, iterations: int, store: Store
) -> Iterator[dict[str, object]]:
    """The same of independent normal projections of that shape, once."""
    generator = torch.Generator().manual_seed(0)
    width = place.query.weight.shape[0] // place.heads
    drawn = [torch.randn(place.heads, place.query.in_features, width, generator=generator)
             for _ in range(2)]  # fmt: skip
    labels = {"model": model, "weights": RANDOM, "layer": 0}
    for _, _, row in _ways(*drawn, dims, iterations, store):
        yield labels | row


def _ways(
    queries: Tensor, keys: Tensor, dims: int, iterations: int, store: Store
) -> Iterator[tuple[str, Terms, dict[str, object]]]:
    shared, seconds = kept_terms(queries, keys, Decomposition(dims, iterations), store)
    found = {SHARED: shared, LARGEST: separate_terms(queries, keys, dims, evenly=False),
             ALIKE: separate_terms(queries, keys, dims, evenly=True)}  # fmt: skip
    for way, terms in found.items():
        yield way, terms, {"way": way, "dims": dims, "share": dims / queries.shape[1],
                           "left": left_over(queries, keys, terms),
                           "seconds": seconds if way == SHARED else np.nan}  # fmt: skip


class Similarity:
    """Distance of sentence vectors from those of the unchanged model."""

    def __init__(self, model: Loaded, sentences: list[str]) -> None:
        self.model, self.batches = model, model.batches(sentences, tokens=1024)
        self.before = self._vectors()

    def cost(self) -> np.ndarray:
        """1 − cosine, per sentence."""
        return 1 - nn.functional.cosine_similarity(self._vectors(), self.before).numpy()

    def _vectors(self) -> Tensor:
        with torch.inference_mode():
            return torch.cat([self.model.vectors(batch) for batch in self.batches]).double()


class Translation:
    """Rise of the loss on reference translations."""

    def __init__(self, model: Loaded, sources: list[str], references: list[str]) -> None:
        self.model, self.sources, self.references = model, sources, references
        self.batches: list[Batch] = model.batches(sources, references, tokens=1024)
        self.before = self._nats()
        self.first: Statistics | None = None

    def cost(self) -> np.ndarray:
        """Rise of each sentence's nats, as a share of the mean over the unchanged model's."""
        return (self._nats() - self.before) / self.before.mean()

    def bleu(self, count: int) -> dict[str, float]:
        """Of the first sentences, and its difference from the first call, which ordinary heads are.

        With an interval over resampled sentences.
        """
        found = self.model.translate(self.sources[:count])
        counted = statistics(found, self.references[: len(found)])
        self.first = counted if self.first is None else self.first
        change = paired(counted, self.first)
        return {"bleu": corpus_bleu(counted), "difference": change.difference,
                "low": change.low, "high": change.high}  # fmt: skip

    def _nats(self) -> np.ndarray:
        found = []
        for batch in self.batches:
            with torch.inference_mode():
                losses = self.model.losses(batch, shortlist=True)
            rows = losses.split(batch.target_mask.sum(1).tolist())
            found += [float(row.double().sum()) for row in rows]
        return np.array(found)


def _reader(model: Loaded, sentences: int) -> Similarity | Translation:
    if model.languages[1] is None:
        return Similarity(model, list(text("ewt-sample", first=sentences).sentences))
    if set(model.languages) != {"en", "pt"}:
        raise UserError(f"{model.name}: references are known for en and pt alone")
    pairs = next(iter(corpus("ntrex-pt").tests.values())).first(sentences)
    sides = [list(pairs.source), list(pairs.target)]
    return Translation(model, *(sides if model.languages[0] == "en" else reversed(sides)))


def _over_sentences(each: pd.DataFrame) -> pd.DataFrame:
    """Mean cost with its interval."""
    rows, names = [], ["model", "way", "dims", "share", "parameters", "iterations", "sentences"]
    for keys, own in each.groupby(names, sort=False):
        low, high = resampled_mean(own["cost"], seed=0)
        rows.append(dict(zip(names, keys, strict=True))
                    | {"value": own["cost"].mean(), "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows)


def claims(each: pd.DataFrame, weights: pd.DataFrame) -> list[dict[str, object]]:
    """One row per claim and model, intervals over sentences or layers."""
    rows = []
    for model, own in each.groupby("model", sort=False):
        whole = own[own["way"] == ORDINARY]["cost"].abs().max()
        rows.append(released_claim("collaborating-ordinary-heads", model, float(whole)))
        costs = own.assign(part=[_part(share) for share in own["share"]])
        costs = costs.set_index(["part", "way", "sentence"])["cost"].sort_index()
        rows.append(mean_claim("collaborating-two-thirds", model, costs["2/3", SHARED]))
        gain = costs["1/2", ALIKE] - costs["1/2", SHARED]
        rows.append(mean_claim("collaborating-beats-separate", model, gain))
        rows.append(mean_claim("collaborating-beyond-random", model, _beyond(weights, model)))
    return rows


def _beyond(weights: pd.DataFrame, model: str) -> pd.Series:
    """Gain of sharing at half of the dimensions, by layer, minus that of random weights."""
    own = weights[(weights["model"] == model) & (weights["share"].map(_part) == "1/2")]
    wide = own.pivot(index=["weights", "layer"], columns="way", values="left")
    gain = wide[LARGEST] - wide[SHARED]
    return gain[TRAINED] - gain[RANDOM].item()


def _part(share: float) -> str:
    """The nearest of the shares by name: 85 of 256 dimensions are a third."""
    known = {"all": 1.0, **PARTS}
    return min(known, key=lambda name: abs(known[name] - share))


def curves(tables: Tables, model: str) -> pd.DataFrame:
    """Cost over the number of dimensions in each way; with all of them it is that of none."""
    rows = tables["costs"].query("model == @model")
    whole = rows[rows["way"] == ORDINARY]
    lines = [pd.concat([whole, rows[rows["way"] == way]]).assign(way=SHORT[way]) for way in WAYS]
    return pd.concat(lines)


def left(tables: Tables, model: str) -> pd.DataFrame:
    """Mean error of the weights over layers, of the model's and of random ones."""
    rows = tables["weights"].query("model == @model and way != @ALIKE")
    mean = rows.groupby(["weights", "way", "dims"], sort=False)["left"].mean().reset_index()
    form = mean["way"].map({SHARED: "shared", LARGEST: "separate"})
    return mean.assign(of=mean["weights"] + ", " + form).rename(columns={"left": "value"})


SHORT = {SHARED: "shared", LARGEST: "separate, largest", ALIKE: "separate, each as many"}


def summary(tables: Tables) -> pd.DataFrame:
    """One row per model and number of dimensions."""
    rows = []
    seconds = tables["weights"].groupby(["model", "dims"])["seconds"].sum()
    for (model, dims), own in tables["costs"].groupby(["model", "dims"], sort=False):
        cost = own.set_index("way")
        row = {"model": words.TITLES.get(model, model), "dimensions": int(dims),
               "parameters": words.count(own["parameters"].iloc[0])}  # fmt: skip
        for way in WAYS:
            known = cost.loc[way if way in cost.index else ORDINARY]
            row[f"cost: {SHORT[way]}"] = _percent(known["value"])
        taken = seconds.get((model, dims), 0.0)
        row["decomposition, s"] = f"{taken:.0f}" if taken else ""
        rows.append(row)
    return pd.DataFrame(rows)


def _percent(cost: float) -> str:
    """0.0597 as `6.0 %`."""
    return words.tenths(cost).removeprefix("+")


def translations(tables: Tables) -> pd.DataFrame:
    """BLEU and its difference from ordinary heads by number of dimensions, one column per way."""
    shown = tables["bleu"].assign(
        shown=[f"{row.bleu:.1f}" if row.way == ORDINARY else
               f"{row.bleu:.1f}, {words.difference(row.difference, row.low, row.high, 1)}"
               for row in tables["bleu"].itertuples()]
    )  # fmt: skip
    wide = shown.pivot(index="dims", columns="way", values="shown").sort_index(ascending=False)
    named = {way: SHORT.get(way, way) for way in (ORDINARY, SHARED, ALIKE)}
    ordered = wide[list(named)].rename(columns=named).rename_axis(columns=None)
    return ordered.fillna("").reset_index().rename(columns={"dims": "dimensions"})


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: costs, errors of weights and seconds by model, share and way."""
    keys = {SHARED: "shared", LARGEST: "largest", ALIKE: "alike"}
    part = {"2/3": "two_thirds", "1/2": "half", "1/3": "third", "1/4": "quarter"}
    found: Facts = {"paper_free": str(PAPER_FREE), "paper_exact": f"{PAPER_EXACT:.0e}",
                    "paper_glue": f"{PAPER_GLUE:.1f}"}  # fmt: skip
    found |= {f"paper_glue_{part[share]}": f"{glue:.1f}" for share, glue in PAPER_TUNED.items()}
    exact = tables.get("claims", claims_table([])).query(
        "claim == 'collaborating-ordinary-heads'"
    )  # fmt: skip
    found |= {f"{words.key(row.model)}_whole": f"{row.value:.0e}" for row in exact.itertuples()}
    for row in tables["costs"].itertuples():
        name = words.key(row.model)
        if row.way == ORDINARY:
            continue
        key = f"{name}_{keys[row.way]}_{part[_part(row.share)]}"
        found |= {key: _percent(row.value), f"{key}_similarity": f"{1 - row.value:.2f}",
                  f"{key}_similarity_estimate": words.number(
                      1 - row.value, 1 - row.high, 1 - row.low)}  # fmt: skip
        found[f"{name}_sentences"] = str(row.sentences)
    mean = tables["weights"].groupby(["model", "weights", "way", "share"])["left"].mean()
    for (model, weights, way, share), value in mean.items():
        key = f"{words.key(model)}_{weights}_{keys[way]}_{part[_part(share)]}_left"
        found[key] = words.percent(value)
    trained = tables["weights"][tables["weights"]["weights"] == TRAINED]
    for (model, share), value in trained.groupby(["model", "share"])["seconds"].sum().items():
        found[f"{words.key(model)}_{part[_part(share)]}_seconds"] = f"{value:.0f}"
    for row in tables.get("bleu", pd.DataFrame()).itertuples():
        where = "whole" if row.way == ORDINARY else f"{keys[row.way]}_{part[_part(row.share)]}"
        change = words.difference(row.difference, row.low, row.high, 1)
        found |= {f"bleu_{where}": f"{row.bleu:.1f}", f"bleu_{where}_change": change}
        found["translated"] = str(row.translated)
    if "scratch" in tables:
        found |= scratch.facts(tables["scratch"])
    found["iterations"] = str(int(tables["weights"]["iterations"].iloc[0]))
    return found
