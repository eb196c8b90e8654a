"""Information that heads of released models pass on about the tokens they read: page 25.

Mutual information of a head's output and the token it reads. The output of a head at a token (its
context, before the output projection) is replaced by the number of its cluster C, as Voita et al.
(2019, evolution) do with the states of layers; R is the token with the head's largest weight:

    I(C; R) = Σ p(c, r) ln [p(c, r) / (p(c) p(r))] nats, less its mean over shuffled R.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import released_claim
from headbook.claims.gates import NONE
from headbook.claims.ledger import Gate
from headbook.corpora.batches import Batch
from headbook.heads.collect import collect
from headbook.heads.confidence import Confidence
from headbook.heads.nulls import Null, without_knowledge
from headbook.heads.recording import Recording
from headbook.heads.tokens import NOWHERE, REAL_TOKENS, EosKeys, counted_queries, favourites
from headbook.layers.mutual_information import clusters, information
from headbook.looking.effects import Effects, effects, own_batches
from headbook.looking.load import load
from headbook.looking.text import reads, text
from headbook.models.capture import Point
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.statistics import (
    Replicates,
    drawn_within,
    interval,
    resampled_within_layers,
    spearman,
)
from headbook.tables import typed
from headbook.types import Kind, UserError

CLUSTERS, TYPES = 32, 50
"""Clusters of a head's outputs; tokens that are distinguished, the last being all others."""
INFORMATION, SHUFFLED, ENTROPY = "information", "shuffled", "entropy"
CONFIDENCE, OTHER_HALF = "confidence", "added_second"
MEASURES = {
    INFORMATION: "mutual information",
    SHUFFLED: "tokens shuffled",
    ENTROPY: "entropy of the tokens read",
    CONFIDENCE: "confidence",
    OTHER_HALF: "ablation, other sentences",
}
"""Columns and how figures name them."""
RELEASED, REDRAWN = "released", "drawn anew"
LABELS, HEAD = ["model", "kind"], ["kind", "layer", "head"]
REMOVAL = ("added", "added_first", OTHER_HALF)
ONE_OUT, TOGETHER = "20", "57"
TEST = "ntrex-pt"
"""The text of page 20 that counts; the other one is the control."""


class Sayings:
    """Every head's outputs at real tokens and the tokens read, as `collect` passes them by."""

    point, points = Point.WEIGHTS, (Point.WEIGHTS, Point.CONTEXT)

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._outputs: list[Float[Tensor, "token layer head dim"]] = []
        self._read: list[Int[Tensor, "token layer head"]] = []

    def update(self, tape: Recording, batch: Batch) -> None:
        """Special tokens are read as any others, and do not read; NOWHERE is read on a tie."""
        queries = counted_queries(batch, self.kind, REAL_TOKENS)
        keys = favourites(tape, batch, self.kind, EosKeys.COUNTED).key
        ids = batch.target_in if self.kind is Kind.DECODER else batch.source
        rows = torch.arange(len(batch), device=ids.device)[:, None, None, None]
        read = torch.where(keys == NOWHERE, NOWHERE, ids[rows, keys.clamp_min(0)])
        outputs = torch.stack(tape[self.kind, Point.CONTEXT], dim=1)
        self._outputs.append(outputs.movedim(3, 1)[queries].float().cpu())
        self._read.append(read.movedim(3, 1)[queries].cpu())

    def rows(self, frequent: Int[Tensor, " type"]) -> Iterator[dict[str, object]]:
        """One row per head; tokens that are not among the frequent ones count as one."""
        outputs, read = torch.cat(self._outputs), torch.cat(self._read)
        among = read[..., None] == frequent
        classes = torch.where(among.any(-1), among.int().argmax(-1), len(frequent))
        places = list(np.ndindex(*read.shape[1:]))
        for layer, head in tqdm(places, f"clustering {self.kind} heads", unit="head"):
            found = information(clusters(outputs[:, layer, head], CLUSTERS, 0),
                                classes[:, layer, head], 0)  # fmt: skip
            yield {"layer": layer + 1, "head": head + 1, INFORMATION: found.nats - found.null,
                   SHUFFLED: found.null, ENTROPY: found.entropy, "tokens": len(read)}  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A model and its text."""

    model: Loaded
    sentences: Sequence[str]

    @cached_property
    def batches(self) -> list[Batch]:
        return own_batches(self.model, self.sentences)

    def rows(self, weights: str, ablated: int) -> pd.DataFrame:
        """One row per head of every kind: its mutual information, and the effect of removing it.

        With 0 of them it is that of the published tables, where these have the model.
        """
        network = self.model.network
        kinds = list(dict.fromkeys(kind for kind, _, _ in network.attentions()))
        measures = [(Sayings(kind), Confidence(kind, replicates=0)) for kind in kinds]
        collect(network, self.batches, [each for pair in measures for each in pair], iter)
        parts = []
        for kind, (sayings, confidence) in zip(kinds, measures, strict=True):
            rows = pd.DataFrame(sayings.rows(_frequent(self.batches, kind)))
            rows[CONFIDENCE] = confidence.compute().flatten().numpy()
            parts.append(rows.assign(kind=str(kind)))
        found = pd.concat(parts, ignore_index=True)
        if ablated:
            found = found.assign(**_removals(self._removed(ablated)))
        else:
            found = found.merge(published_removals(self.model.name), "left", HEAD)
        return found.assign(model=self.model.name, weights=weights, sentences=len(self.sentences))

    def _removed(self, ablated: int) -> Effects:
        network = self.model.network
        parts = [batch.select(batch.sentences < ablated) for batch in self.batches]
        ways = [partial(closed, network, [head]) for head in all_heads(network)]
        return effects(self.model, [part for part in parts if len(part)], ways,
                       partial(tqdm, desc="removing heads", unit="head"))  # fmt: skip


def published_removals(model: str) -> pd.DataFrame:
    """Loss added without each head, of page 20 on two texts or else of page 57; no row without."""
    found = _of_one_out(model)
    if found.empty:
        found = _of_together(model)
    return found if len(found) else pd.DataFrame(columns=[*HEAD, *REMOVAL])


def _of_one_out(model: str) -> pd.DataFrame:
    rows = typed(ONE_OUT, "heads").query("model == @model")
    rows = rows.assign(head=rows["head"].str.extract(r"H(\d+)", expand=False).astype(int))
    wide = rows.pivot(index=HEAD, columns="text", values="own_added").reset_index()
    if TEST not in wide or wide.drop(columns=HEAD).shape[1] < 2:
        return pd.DataFrame()
    (other,) = (name for name in wide if name not in (*HEAD, TEST))
    columns = dict.fromkeys(("added", "added_first"), wide[TEST])
    return wide[HEAD].assign(**columns, **{OTHER_HALF: wide[other]})


def _of_together(model: str) -> pd.DataFrame:
    rows = typed(TOGETHER, "heads").query("model == @model")
    places = rows["head"].str.extract(r"L(?P<layer>\d+)H(?P<head>\d+)").astype(int)
    return places.assign(kind=str(Kind.ENCODER), added=rows["effect"],
                         added_first=np.nan, **{OTHER_HALF: np.nan})  # fmt: skip


def _frequent(batches: Sequence[Batch], kind: Kind) -> Int[Tensor, " type"]:
    """The most frequent tokens among those that heads of this kind read, one fewer than TYPES."""
    read = [batch.target_in[batch.target_mask] if kind is Kind.DECODER
            else batch.source[batch.source_mask] for batch in batches]  # fmt: skip
    ids, counts = torch.cat(read).unique(return_counts=True)
    return ids[counts.argsort(descending=True, stable=True)[: TYPES - 1]]


def _removals(found: Effects) -> dict[str, np.ndarray]:
    """Loss added per token on all sentences, and on those with an even and with an odd number."""
    halves = (slice(0, None, 2), slice(1, None, 2))
    apart = [found.added[:, each].sum(1) / found.weights[each].sum() for each in halves]
    return {name: each.numpy() for name, each in zip(REMOVAL, (found.mean, *apart), strict=True)}


def said(
    models: Sequence[str], texts: Sequence[str], sentences: int, ablated: int = 0, nulls: int = 0
) -> Tables:
    """Heads' information beside their removal; with `nulls` sentences also null networks; claims.

    Removal is measured on the first `ablated` sentences, with 0 read from the published tables, and
    that of null networks on the first `nulls`.
    """
    for name, count in (("ablated", ablated), ("nulls", nulls)):
        if count < 0 or count == 1 or count > sentences:
            raise UserError(f"{name} is {count}; give 0, or 2 to {sentences}, the sentences read")
    tables = []
    for name in models:
        model = load(name)
        subject = Subject(model, _sentences(model, texts, sentences))
        tables.append(subject.rows(RELEASED, ablated))
        if nulls:
            with without_knowledge(model.network, Null.DRAWN, 0):
                tables.append(subject.rows(REDRAWN, nulls))
    found = pd.concat(tables, ignore_index=True)
    return {"said": found} | ({"claims": pd.DataFrame(list(_claims(found)))} if nulls else {})


def _sentences(model: Loaded, texts: Sequence[str], count: int) -> list[str]:
    """The first sentences of the first text in the model's language."""
    for name in texts:
        if reads(model, name):
            return list(text(name).sentences[:count])
    raise UserError(f"{model.name} reads {model.languages[0]}: name a text of that language")


def correlations(heads: pd.DataFrame, measure: str) -> Replicates:
    """Spearman's ρ of a measure with the loss added, over heads of one kind drawn again.

    Ablation on other sentences is compared with that on the first ones.
    """
    missed = "added_first" if measure == OTHER_HALF else "added"
    scores = heads[[measure, missed]].to_numpy(dtype=float).T
    drawn = drawn_within([0] * len(heads))
    return spearman(scores[:, drawn].swapaxes(0, 1))[:, 0, 1]


def _within(heads: pd.DataFrame, measure: str = INFORMATION) -> Replicates:
    """The same within layers, mean over the layers."""
    wide = heads.pivot(index="layer", columns="head")
    return resampled_within_layers(wide[measure].to_numpy(), wide["added"].to_numpy())


def _claims(found: pd.DataFrame) -> Iterator[dict[str, object]]:
    for (model, kind), own in found.groupby(LABELS, sort=False):
        named, anew = (own[own["weights"] == each] for each in (RELEASED, REDRAWN))
        values = {
            "information-agrees-with-removal": correlations,
            "information-within-layer": _within,
        }
        for claim, of in values.items():
            nulls = {"weights drawn anew": interval(of(anew, INFORMATION)),
                     "tokens shuffled": interval(of(named, SHUFFLED))}  # fmt: skip
            passing = [f"{Gate.DIAGNOSTIC}: with {null} it is {found[0]:.2f}, too"
                       for null, found in nulls.items() if found[1] > 0]  # fmt: skip
            yield released_claim(claim, f"{model}, {kind}", *interval(of(named, INFORMATION)),
                                 baseline=nulls["weights drawn anew"][0],
                                 closed=passing[0] if passing else NONE)  # fmt: skip
        gap = correlations(named, INFORMATION) - correlations(named, CONFIDENCE)
        yield released_claim("information-beyond-confidence", f"{model}, {kind}", *interval(gap))


def facts(tables: Tables) -> Facts:
    """Correlations by model and kind, `said_minilm_encoder` and so on, and what was measured."""
    heads = tables["said"].dropna(subset="added")
    found: Facts = {"read_sentences": words.count(heads["sentences"].max()),
                    "clusters": str(CLUSTERS)}  # fmt: skip
    for (model, kind), own in heads.groupby(LABELS, sort=False):
        name = words.key(model, kind)
        named, anew = (own[own["weights"] == each] for each in (RELEASED, REDRAWN))
        values = {"said": correlations(named, INFORMATION), "within": _within(named),
                  "half": correlations(named, OTHER_HALF),
                  "shuffled": correlations(named, SHUFFLED),
                  "anew": correlations(anew, INFORMATION)}  # fmt: skip
        for key, replicates in values.items():
            value, low, high = interval(replicates)
            found[f"{key}_{name}"] = words.difference(value, low, high)
    return found


def with_removal(tables: Tables, weights: str = RELEASED) -> pd.DataFrame:
    """Every measure's correlation with removal, by model and kind of attention; and by layers."""
    rows = []
    found = tables["said"].query("weights == @weights").dropna(subset="added")
    for (model, kind), own in found.groupby(LABELS, sort=False):
        title = words.TITLES.get(str(model), str(model))
        others = {name: correlations(own, name) for name in MEASURES}
        every = {INFORMATION: others.pop(INFORMATION), "within": _within(own), **others}
        for name, each in every.items():
            value, low, high = interval(each)
            rows.append({"key": name, "measure": MEASURES.get(name, "the same, within layers"),
                         "heads": f"{title}, {kind}", "model": title, "kind": kind, "value": value,
                         "low": low, "high": high, "count": len(own)})  # fmt: skip
    return pd.DataFrame(rows)
