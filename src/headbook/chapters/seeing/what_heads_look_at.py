"""Page 50: tokens on which the weights of encoder heads fall (Clark et al. 2019), and norms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from unicodedata import category

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._in_language import in_their_language
from headbook.chapters.tables import claims_table, released_claim
from headbook.corpora.batches import Batch
from headbook.heads.attended import Attended, AttendedWeight
from headbook.heads.collect import collect
from headbook.heads.diversity_maps import MapEntropy
from headbook.heads.measure import HeadMeasure, RatioSums, percentiles
from headbook.heads.norms import POINTS, NormShares, by_norm
from headbook.heads.nulls import Null, without_knowledge
from headbook.heads.outputs import output_parts
from headbook.heads.recording import Shared
from headbook.heads.special import SpecialWeight
from headbook.looking.attention import Attention, attention
from headbook.looking.view import of_every_kind, short_sentences
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.plots.view import View, choice, every
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind, UserError

NUMBER = 50
TITLE = "What do heads look at?"
WORK = "clark2019"
KEYS = ("model", "text", "sentences", "matrix")

WEIGHTS, NORMS, REDRAWN = "weights", "norms", "weights, drawn anew"
KINDS = [str(kind) for kind in Attended]
QUANTITIES = [*KINDS, "special", "entropy"]
LENGTHS = (0, 10, 20, 30, 40, 1000)
"""Bounds of the bins of sentence length, in tokens with the special ones."""
MIDDLE = (5 / 12, 10 / 12)
"""Layers 6 to 10 of the work's 12."""
HALF = 0.5
PAPER = {"separator": 0.5, "previous": 4, "next": 5, "heads": 144, "layers": 12}
VIEWED, VIEWED_LENGTHS = 2, (9, 16)
"""Sentences of the view, and their lengths in tokens."""


@dataclass(frozen=True)
class Parameters:
    """Models, texts in their languages, sentences of each, and networks with redrawn weights."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int | None = None
    nulls: int = 0


Sums = Mapping[str, RatioSums]
"""By quantity; those of `Attended` along the last axis of "attended"."""


def compute(parameters: Parameters, store: Store) -> Tables:
    """Means per head, layer and length, and claims."""
    found: dict[str, list[pd.DataFrame]] = {"heads": [], "layers": [], "lengths": []}
    claims: list[dict[str, object]] = []
    read = list(in_their_language(parameters.models, parameters.texts, parameters.sentences))
    for model, text, sentences in read:
        labels = {"model": model.name, "text": text, "sentences": len(sentences)}
        by_length = list(_measured(model, sentences, parameters.nulls))
        whole = _added([sums for _, sums in by_length])
        for matrix, sums in whole.items():
            found["heads"].append(_heads(sums).assign(**labels, matrix=matrix))
            found["layers"].append(_layers(sums).assign(**labels, matrix=matrix))
        for tokens, sums in by_length:
            rows = pd.DataFrame(_length(sums[WEIGHTS], tokens))
            found["lengths"].append(rows.assign(**labels, matrix=WEIGHTS))
        if text == _main_text(read, model.name):
            claims += _claims(model.name, whole)
    tables = {name: pd.concat(each, ignore_index=True) for name, each in found.items()}
    # Claims are about the longest text, with controls; a live page takes the time for neither.
    judged = claims_table(claims)
    return tables | ({"claims": judged} if parameters.nulls else {})


def _main_text(read: Sequence[tuple[Loaded, str, Sequence[str]]], name: str) -> str:
    """Claims are about the last text of a model."""
    return [text for model, text, _ in read if model.name == name][-1]


def _measured(
    model: Loaded, sentences: Sequence[str], nulls: int
) -> Iterator[tuple[float, dict[str, Sums]]]:
    """Of each bin of lengths: mean length, and the sums of weights, norms and redrawn networks."""
    if not any(kind is Kind.ENCODER for kind, _, _ in model.network.attentions()):
        raise UserError(f"{model.name} has no encoder: name a model with encoder self-attention")
    signs = [punctuation(model, sentence) for sentence in sentences]
    lengths = torch.tensor([len(each) for each in signs])
    for low, high in pairwise(LENGTHS):
        rows = ((lengths >= low) & (lengths < high)).nonzero().flatten().tolist()
        if not rows:
            continue
        batches = _batches(model, sentences, rows)
        weights, norms = _measures(signs), by_norm(model.network, _measures(signs))
        collect(model.network, batches, [*weights.values(), *norms.values()], progress=iter)
        sums = {WEIGHTS: {name: each.sums() for name, each in weights.items()},
                NORMS: {name: each.measure.sums() for name, each in norms.items()}}  # fmt: skip
        drawn = [_redrawn(model, batches, signs, seed) for seed in range(nulls)]
        if drawn:
            sums[REDRAWN] = _added([{REDRAWN: each} for each in drawn])[REDRAWN]
        yield float(lengths[rows].double().mean()), sums


def _batches(model: Loaded, sentences: Sequence[str], rows: Sequence[int]) -> list[Batch]:
    """Sentences of a bin, each with its index among all of them."""
    given = model.batches([sentences[row] for row in rows])
    return [replace(each, sentences=torch.tensor(rows)[each.sentences]) for each in given]


def _measures(signs: Sequence[Tensor]) -> dict[str, HeadMeasure]:
    return {"attended": AttendedWeight(signs), "special": SpecialWeight(Kind.ENCODER),
            "entropy": MapEntropy(Kind.ENCODER)}  # fmt: skip


def _redrawn(model: Loaded, batches: Sequence[Batch], signs: Sequence[Tensor], seed: int) -> Sums:
    measures = _measures(signs)
    with without_knowledge(model.network, Null.DRAWN, seed):
        collect(model.network, batches, list(measures.values()), progress=iter)
    return {name: each.sums() for name, each in measures.items()}


def punctuation(model: Loaded, sentence: str) -> Tensor:
    """True at the model's tokens that hold nothing but punctuation marks."""
    spans = model.spans(sentence)
    texts = ["" if span is None else sentence[slice(*span)] for span in spans]
    return torch.tensor(
        [bool(each) and all(category(sign)[0] == "P" for sign in each) for each in texts]
    )


def _added(several: Sequence[Mapping[str, Sums]]) -> dict[str, Sums]:
    """The sums over all bins of lengths, or over several networks."""
    return {
        matrix: {
            name: RatioSums(sum(each[matrix][name].numerator for each in several),
                            sum(each[matrix][name].denominator for each in several))
            for name in sums
        }
        for matrix, sums in several[0].items()
    }  # fmt: skip


def _values(sums: Sums) -> dict[str, Tensor]:
    """[replicate layer head] of every quantity."""
    attended = sums["attended"].replicates().unbind(-1)
    return dict(zip(KINDS, attended, strict=True)) | {
        name: sums[name].replicates() for name in ("special", "entropy")
    }


def _heads(sums: Sums) -> pd.DataFrame:
    values = {name: each[0] for name, each in _values(sums).items()}
    layers, heads = values["entropy"].shape
    return pd.DataFrame(
        {"layer": layer + 1, "head": head + 1}
        | {name: float(each[layer, head]) for name, each in values.items()}
        for layer in range(layers) for head in range(heads)
    )  # fmt: skip


def _layers(sums: Sums) -> pd.DataFrame:
    """Mean over the heads of each layer, intervals over sentences."""
    rows = []
    for quantity, values in _values(sums).items():
        means = values.mean(-1)
        low, high = percentiles(means[1:])
        rows += [{"quantity": quantity, "layer": at + 1, "value": float(means[0, at]),
                  "low": float(low[at]), "high": float(high[at])}
                 for at in range(means.shape[1])]  # fmt: skip
    return pd.DataFrame(rows)


def _length(sums: Sums, tokens: float) -> Iterator[dict[str, object]]:
    """Mean over all heads in sentences of about so many tokens; entropy over that of uniform."""
    values = _values(sums)
    shown = {"on special tokens": values["special"],
             "on a neighbour": values["previous"] + values["next"],
             "on punctuation": values["punctuation"],
             "entropy / that of uniform weights": values["entropy"] / np.log(tokens)}  # fmt: skip
    for quantity, each in shown.items():
        means = each.mean((-2, -1))
        low, high = percentiles(means[1:])
        yield {"tokens": tokens, "quantity": quantity, "value": float(means[0]),
               "low": float(low), "high": float(high)}  # fmt: skip


def _claims(model: str, whole: Mapping[str, Sums]) -> Iterator[dict[str, object]]:
    """One row per claim, intervals over sentences."""
    values, norms = _values(whole[WEIGHTS]), _values(whole[NORMS])
    layers = values["entropy"].shape[1]
    depth = torch.arange(1, layers + 1) / layers
    middle = (depth > MIDDLE[0]) & (depth <= MIDDLE[1] + 1e-9)
    broadest = values["entropy"].amax(-1)
    neighbour = torch.maximum(values["previous"], values["next"])
    on_last = values[str(Attended.LAST_SPECIAL)]
    found = {
        "clark-half-on-separator": on_last[:, middle].mean((-2, -1)),
        "clark-half-on-special": values["special"][:, middle].mean((-2, -1)),
        "clark-neighbour-heads": (neighbour > HALF).double().mean((-2, -1)),
        "clark-broad-below": broadest[:, : layers // 2].amax(-1)
        - broadest[:, layers // 2 :].amax(-1),
        "kobayashi-special-short": norms["special"].mean((-2, -1))
        / values["special"].mean((-2, -1)),
    }
    if REDRAWN in whole:
        drawn = _values(whole[REDRAWN])["special"]
        found["clark-special-learnt"] = (values["special"] - drawn).mean((-2, -1))
    for claim, each in found.items():
        yield released_claim(claim, model, *interval(each.numpy()))


def main_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Of every model only the rows of its last text, which the claims are about."""
    return table[table["text"] == table.groupby("model")["text"].transform("last")]


def by_layer(tables: Tables, models: Sequence[str], quantity: str = "special") -> pd.DataFrame:
    """A quantity over depth, a curve per model and per weights, norms and redrawn weights."""
    rows = main_rows(tables["layers"]).query("quantity == @quantity and model in @models")
    last = rows.groupby("model")["layer"].transform("max")
    names = rows["model"].replace(words.TITLES) + ", " + rows["matrix"]
    return rows.assign(depth=rows["layer"] / last, curve=names)


def paper_marks() -> pd.DataFrame:
    """Half of the weight in layers 6 to 10 of 12 (Clark et al. 2019, Figure 2)."""
    depth = [layer / PAPER["layers"] for layer in range(6, 11)]
    return pd.DataFrame({"depth": depth, "value": PAPER["separator"]})


def by_length(tables: Tables, model: str) -> pd.DataFrame:
    """Quantities over the length of the sentence."""
    return main_rows(tables["lengths"]).query("model == @model")


def summary(tables: Tables) -> pd.DataFrame:
    """Mean over heads in per cent, one row per model and per weights or norms; entropy in nats."""
    rows = main_rows(tables["heads"])
    means = rows.groupby(["model", "text", "matrix"], sort=False)[QUANTITIES].mean().reset_index()
    shown = {name: means[name].map(words.percent) for name in [*KINDS, "special"]}
    titled = means["model"].replace(words.TITLES)
    return means.assign(**shown, entropy=means["entropy"].map("{:.2f}".format), model=titled)


def shown(parameters: Parameters, tables: Tables) -> View:
    """Every head in short sentences, by weights and by norms; first the one that most looks at the
    next token."""
    views: dict[str, View] = {}
    read = in_their_language(parameters.models, parameters.texts, parameters.sentences)
    for model, _, sentences in read:
        title = title_of(model.name)
        if f"{title}, {Kind.ENCODER}" in views:
            continue
        heads = tables["heads"].query("model == @model.name and matrix == @WEIGHTS")
        best = heads.loc[heads["next"].idxmax()]
        first = int(best["layer"]) - 1, int(best["head"]) - 1
        short = short_sentences(model, sentences, VIEWED, *VIEWED_LENGTHS)
        for kind, each in of_every_kind(model, short, first).items():
            views[f"{title}, {kind}"] = each
        by_norm = {text: every(norm_shares(model, text), first) for text in short}
        views[f"{title}, {Kind.ENCODER}, norm-weighted"] = choice(by_norm)
    return choice(views)


@torch.inference_mode()
def norm_shares(model: Loaded, sentence: str) -> Attention:
    """The encoder's attention between tokens, each weight multiplied by its value's norm."""
    seen = attention(model, sentence, units="tokens", kind=Kind.ENCODER)
    (batch,) = model.batches([sentence])
    with capture(model.network, POINTS, {Kind.ENCODER}) as tape:
        model.network(batch.to(next(model.network.parameters()).device))
    parts = {Kind.ENCODER: output_parts(model.network, Kind.ENCODER)}
    shares = NormShares(Shared(tape), parts)[Kind.ENCODER, Point.WEIGHTS]
    return replace(seen, weights=torch.cat(shares).float().cpu().numpy())


def title_of(model: str) -> str:
    """As figures and tables name it."""
    return words.TITLES.get(model, model)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: shares in the middle layers, and counts of heads."""
    found: Facts = {"paper_separator": words.percent(PAPER["separator"]),
                    "paper_neighbours": f"{PAPER['next']} and {PAPER['previous']} of "
                    f"{PAPER['heads']}"}  # fmt: skip
    layers = main_rows(tables["layers"])
    for (model, matrix), rows in layers.groupby(["model", "matrix"], sort=False):
        depth = rows["layer"] / rows["layer"].max()
        middle = rows[(depth > MIDDLE[0]) & (depth <= MIDDLE[1] + 1e-9)]
        means = middle.groupby("quantity")["value"].mean()
        key = f"{str(model).replace('-', '_')}_{_KEYS[str(matrix)]}"
        found |= {f"{key}_{quantity.replace(' ', '_')}": words.percent(means[quantity])
                  for quantity in ("special", "first special", "last special")}  # fmt: skip
    for row in tables["claims"].query("claim == 'clark-half-on-special'").itertuples():
        key = f"{str(row.model).replace('-', '_')}_{_KEYS[WEIGHTS]}_special_estimate"
        found[key] = words.exact_estimate(row.value, row.low, row.high)
    weights = main_rows(tables["heads"]).query("matrix == @WEIGHTS")
    for model, rows in weights.groupby("model", sort=False):
        key = str(model).replace("-", "_")
        broad = rows.loc[rows["entropy"].idxmax()]
        found |= {
            f"{key}_neighbours": f"{(rows['next'] > HALF).sum()} and "
            f"{(rows['previous'] > HALF).sum()} of {len(rows)}",
            f"{key}_punctuation": f"{(rows['punctuation'] > HALF).sum()} of {len(rows)}",
            f"{key}_broadest": f"layer {broad['layer']}, {broad['entropy']:.1f}",
            f"{key}_sentences": words.count(rows["sentences"].iloc[0]),
        }
    for model, rows in main_rows(tables["lengths"]).groupby("model", sort=False):
        special = rows.query("quantity == 'on special tokens'").sort_values("tokens")
        key = str(model).replace("-", "_")
        for end, row in (("short", special.iloc[0]), ("long", special.iloc[-1])):
            found |= {f"{key}_{end}": words.percent(row["value"]),
                      f"{key}_{end}_tokens": f"{row['tokens']:.0f}"}  # fmt: skip
    return found


_KEYS = {WEIGHTS: "weights", NORMS: "norms", REDRAWN: "redrawn"}
