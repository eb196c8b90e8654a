"""What a head's output tells of the token that it reads, and the same of a null network (page 25).

The output of a head at a token (before the output projection) is replaced by its cluster C, as
Voita et al. (2019, evolution) do with the states of layers; R is the token with the largest weight.
A network with weights drawn anew reads the same tokens. All heads of three released models, with
null networks, took three minutes.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook import tables
from headbook.experiments.heads_out import RELEASED
from headbook.heads.nulls import Null, without_knowledge
from headbook.heads.tokens import counted_keys, counted_queries
from headbook.layers.mutual_information import clusters
from headbook.layers.mutual_information import information as of_clusters
from headbook.looking.effects import own_batches
from headbook.looking.importance import by_ablation
from headbook.looking.load import load
from headbook.looking.text import reads, text
from headbook.models.capture import Point, capture
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import Kind

CLUSTERS, TYPES = 32, 50
"""Clusters of outputs; tokens that are told apart, the last being all others."""
POINTS = (Point.WEIGHTS, Point.CONTEXT)
TEXTS, SENTENCES, FEW = ("ewt-sample", "ud-pud-pt"), 80, 24
"""Texts in English and Portuguese; sentences without each head where page 20 has no losses."""
HEAD = ["kind", "layer", "head"]


def information(
    outputs: Float[Tensor, "token dim"],
    read: Int[Tensor, " token"],
    frequent: Int[Tensor, " type"],
) -> tuple[float, float, float]:
    """Nats that clusters of outputs tell of tokens beyond chance, chance, entropy.

    Chance is the mean over shuffled tokens.
    """
    tokens = torch.where(torch.isin(read, frequent), read, -1)
    found = of_clusters(clusters(outputs, CLUSTERS, 0), tokens, 0)
    return found.nats - found.null, found.null, found.entropy


@torch.inference_mode()
def reading(model: Loaded, kind: Kind, batches: Sequence[Batch]) -> list[Tensor]:
    """Of every real token that asks: outputs, ids of the tokens read, and the largest weights.

    Three tensors [token, layer, head, …]. Special tokens may be read; the largest weight is among
    real tokens.
    """
    found = []
    for batch in batches:
        with capture(model.network, set(POINTS)) as tape:
            model.encoded(batch) if kind is Kind.ENCODER else model.network(batch)
        weights, outputs = (torch.stack(tape[kind, point], 1) for point in POINTS)
        rows = torch.arange(len(batch))[:, None, None, None]
        keys = counted_keys(batch, kind)[:, None, None, None]
        parts = (outputs, batch.source[rows, weights.argmax(-1)], (weights * keys).amax(-1))
        asks = counted_queries(batch, kind)
        found.append([part.movedim(3, 1)[asks] for part in parts])
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


def told(
    model: Loaded, kind: Kind, batches: Sequence[Batch], layers: Sequence[int]
) -> pd.DataFrame:
    """One row per head of a kind, of these layers or all: information and confidence."""
    outputs, read, tops = reading(model, kind, batches)
    ids, counts = torch.cat([b.source[b.source_mask] for b in batches]).unique(return_counts=True)
    frequent = ids[counts.argsort(descending=True, stable=True)[: TYPES - 1]]
    rows = []
    for layer, head in tqdm(list(np.ndindex(*read.shape[1:])), f"clustering {kind} heads"):
        if layer + 1 in layers or not layers:
            heard = information(outputs[:, layer, head], read[:, layer, head], frequent)
            confidence = tops[:, layer, head].double().mean().item()
            rows.append((kind, 1 + layer, 1 + head, len(read), *heard, confidence))
    names = ["tokens", "information", "shuffled", "entropy", "confidence"]
    return pd.DataFrame(rows, columns=[*HEAD, *names]).astype({"kind": str})


def without(model: Loaded, batches: Sequence[Batch], sentences: int) -> pd.DataFrame:
    """What each head's removal adds to the loss of the first sentences (`by_ablation`)."""
    few = [batch.select(batch.sentences < sentences) for batch in batches]
    added = by_ablation(model, [batch for batch in few if len(batch)]).ratio().numpy()
    places = [(str(h.kind), 1 + h.layer, 1 + h.head) for h in all_heads(model.network)]
    return pd.DataFrame(places, columns=HEAD).assign(added=added, elsewhere=np.nan)


def published(model: str) -> pd.DataFrame:
    """The same of page 20, on its test text and elsewhere; without rows where it has none."""
    rows = tables.typed("20", "heads").query("model == @model")
    number = rows["head"].str.extract(r"H(\d+)$", expand=False).astype(int)
    of = np.where(rows["text"] == RELEASED, "added", "elsewhere")
    rows = rows.assign(head=number, of=of).pivot(index=HEAD, columns="of", values="own_added")
    return rows.reindex(columns=["added", "elsewhere"]).dropna(subset="added").reset_index()


def heads(name: str, layers: Sequence[int], null: int) -> pd.DataFrame:
    """Rows of a model: the encoder's heads in some layers; where none is named, all heads.

    With `null` sentences also those of a null network, whose heads are removed on so many.
    """
    model = load(name)
    own = next(text(each) for each in TEXTS if reads(model, each))
    batches = own_batches(model, own.sentences[:SENTENCES])
    kinds = list(dict.fromkeys(kind for kind, _, _ in model.network.attentions()))

    def rows(weights: str, some: Sequence[int], lost: pd.DataFrame) -> pd.DataFrame:
        parts = [told(model, kind, batches, some) for kind in kinds[: 1 if some else None]]
        return pd.concat(parts).merge(lost, "left", HEAD).assign(weights=weights)

    lost = published(name)
    found = [rows("released", layers, lost if len(lost) else without(model, batches, FEW))]
    if null:
        with without_knowledge(model.network, Null.DRAWN, 0):
            found.append(rows("drawn anew", (), without(model, batches, null)))
    return pd.concat(found).assign(model=name, sentences=SENTENCES)
