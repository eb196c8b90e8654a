"""Page 52: rollout and flow against blank-out and gradients (Abnar and Zuidema 2020)."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.artefacts.catalogue import is_named
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, mean_claim
from headbook.corpora.batches import Batch
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.attention_graph import AttentionGraph, Scores, attention_graph, input_words
from headbook.looking.influence import Outputs, blank_out, input_gradients
from headbook.looking.load import load
from headbook.looking.text import SAMPLE, reads, text
from headbook.models.loaded import Loaded
from headbook.released.catalogue import catalogue
from headbook.runs.store import Store
from headbook.statistics import resampled_mean, spearman
from headbook.types import Kind, UserError

NUMBER = 52
TITLE = "Does attention find words through the layers?"
WORK = "abnar2020"
KEYS = ("model", "form", "weights", "effect", "sentences")

RAW, ROLLOUT, FLOW = "raw weights", "rollout", "flow"
NEAR, UNIFORM = "nearness", "rollout, weights all equal"
BLANK, GRADIENT = "blank-out", "input gradients"
EFFECTS = {BLANK: blank_out, GRADIENT: input_gradients}
POOLED, WORDS, TRANSLATION, CAUSAL = "sentence vector", "each word", "translation", "next word"
FORMS = {
    POOLED: (Kind.ENCODER, True), WORDS: (Kind.ENCODER, False), TRANSLATION: (Kind.CROSS, False),
    CAUSAL: (Kind.DECODER, False),
}  # fmt: skip
"""Outputs: the kind of attention in which they meet the words, and whether they are pooled."""
OTHERS, ALL = "other words", "all words"
AS_IS, REDRAWN = "released", "drawn anew"
TRAINED = "trained"
"""Weights that were not drawn anew, as tables show them: models of our own are not released."""
PAPER = {
    BLANK: {
        RAW: (0.69, 0.10, -0.11, -0.09, 0.20, 0.29),
        ROLLOUT: (0.32, 0.38, 0.51, 0.62, 0.70, 0.71),
        FLOW: (0.32, 0.44, 0.70, 0.70, 0.71, 0.70),
    },
    GRADIENT: {
        RAW: (0.53, 0.16, -0.06, 0.00, 0.24, 0.46),
        ROLLOUT: (0.22, 0.27, 0.39, 0.47, 0.53, 0.54),
        FLOW: (0.22, 0.31, 0.54, 0.61, 0.60, 0.61),
    },
}
"""Mean Spearman correlations at the [CLS] position, layers 1 to 6: the work's Tables 1 and 2."""
PAPER_DISTILBERT = 0.14
"""Largest correlation with blank-out of any method in DistilBERT on SST-2, layers 1 to 6."""
SHORT = {
    RAW: "raw", ROLLOUT: "rollout", FLOW: "flow", NEAR: "near", BLANK: "blank",
    GRADIENT: "gradient", POOLED: "vector", WORDS: "word", TRANSLATION: "translation",
    CAUSAL: "next", AS_IS: "released", REDRAWN: "redrawn",
}  # fmt: skip
"""As the names of facts have them."""
FEWEST, LONGEST = 5, 10
"""Words of a sentence: two ranks or three say little, and flow takes time in long ones."""
FEWEST_INPUTS = 4


@dataclass(frozen=True)
class Parameters:
    """Models, each on the first of these texts that is in its language; sentences of it; effects
    that attention is compared with, and the weights: released, drawn anew."""

    models: tuple[str, ...] = ("minilm",)
    texts: tuple[str, ...] = (SAMPLE, "ud-pud-pt")
    sentences: int = 20
    effects: tuple[str, ...] = (BLANK,)
    weights: tuple[str, ...] = (AS_IS,)


def compute(parameters: Parameters, store: Store) -> Tables:
    """Rank correlations by model, form, weights, layer and method; claims of a whole run."""
    if parameters.sentences < 2:
        raise UserError(f"sentences is {parameters.sentences}; give 2 or more")
    for given, known in (
        (parameters.effects, tuple(EFFECTS)),
        (parameters.weights, (AS_IS, REDRAWN)),
    ):
        if unknown := set(given) - set(known):
            raise UserError(f"{min(unknown)!r} is not measured here; use {' or '.join(known)}")
    rows = [row for name in parameters.models for row in _of(load(name), parameters)]
    each = pd.DataFrame(rows)
    # Claims compare with weights drawn anew, which a live page does not take the time for.
    judged = {"claims": claims(each)} if REDRAWN in parameters.weights else {}
    return {"correlations": _summed(each), **judged}


def _of(model: Loaded, parameters: Parameters) -> Iterator[dict[str, object]]:
    """One row per form, weights, effect, sentence, layer, method and set of words."""
    sentences = short(model, parameters.texts, parameters.sentences)
    forms = forms_of(model)
    targets = model.translate(sentences) if TRANSLATION in forms else None
    for weights in parameters.weights:
        ignorant = without_knowledge(model.network, Null.DRAWN, 0)
        with nullcontext() if weights == AS_IS else ignorant:
            for form in forms:
                outputs = Outputs(model, *FORMS[form])
                labels = {"model": model.name, "form": form, "weights": weights,
                          "sentences": len(sentences)}  # fmt: skip
                given = one_by_one(model, sentences, targets if form == TRANSLATION else None)
                for number, batch in enumerate(given):
                    rows = measured(outputs, batch, parameters.effects)
                    yield from ({**labels, "sentence": number, **row} for row in rows)


def forms_of(model: Loaded) -> list[str]:
    """The outputs that a model has; the one it was trained for is last."""
    kinds = {kind for kind, _, _ in model.network.attentions()}
    found = [form for form, (kind, _) in FORMS.items() if kind in kinds]
    if Kind.CROSS in kinds:
        found = [form for form in found if form != CAUSAL]
    return sorted(found, key=[WORDS, POOLED, CAUSAL, TRANSLATION].index)


def short(model: Loaded, texts: Sequence[str], count: int) -> list[str]:
    """The first short sentences of the first text in the model's language, none of them twice."""
    for name in texts:
        if reads(model, name):
            found = [each for each in dict.fromkeys(text(name).sentences)
                     if FEWEST <= len(each.split()) <= LONGEST]  # fmt: skip
            if len(found) < 2:
                raise UserError(f"{name} has fewer than 2 sentences of {FEWEST} to {LONGEST} words")
            return found[:count]
    language = model.languages[0]
    raise UserError(f"{model.name} reads {language}: name a text of that language in texts")


def one_by_one(
    model: Loaded, sentences: Sequence[str], targets: Sequence[str] | None
) -> Iterator[Batch]:
    """Each sentence as a batch of its own, without padding."""
    for number, sentence in enumerate(sentences):
        yield from model.batches([sentence], [targets[number]] if targets else None)


def measured(outputs: Outputs, batch: Batch, effects: Sequence[str]) -> Iterator[dict[str, object]]:
    """Spearman's ρ of every score with every effect over the words, mean over the outputs."""
    graph = attention_graph(outputs.model.network, outputs.kind, batch)
    graph = replace(graph, pooled=outputs.pooled)
    names, given = zip(*((name, each) for name, layers in scores(graph).items()
                         for each in enumerate(layers, start=1)), strict=True)  # fmt: skip
    read = [_effect(name, outputs, batch, graph) for name in effects]
    # Equal scores differ in the last bits, which would rank them.
    every = torch.stack([*read, *(score.round(decimals=7) for _, score in given)], dim=1)
    sets = {OTHERS: graph.seen & ~graph.own, ALL: graph.seen}
    if not graph.own.any():
        del sets[OTHERS]
    for among, counted in sets.items():
        found = agreement(every, counted)
        for place, (method, (layer, _)) in enumerate(zip(names, given, strict=True), len(effects)):
            for effect, values in zip(effects, found, strict=False):
                yield {"effect": effect, "among": among, "method": method, "layer": layer,
                       "value": float(values[place])}  # fmt: skip


def _effect(
    name: str, outputs: Outputs, batch: Batch, graph: AttentionGraph
) -> Float[Tensor, "output input"]:
    found = EFFECTS[name](outputs, batch, input_words(outputs.kind, batch)).double()
    return (found if outputs.pooled else found[graph.outputs])[:, graph.inputs]


def scores(graph: AttentionGraph) -> dict[str, Scores]:
    """By method, one matrix per layer."""
    return {RAW: graph.raw(), ROLLOUT: graph.rollout(), FLOW: graph.flow(),
            NEAR: graph.nearness(), UNIFORM: graph.uniform().rollout()}  # fmt: skip


def agreement(
    scores: Float[Tensor, "output score input"], counted: Bool[Tensor, "output input"]
) -> Float[np.ndarray, "score score"]:
    """Spearman's ρ over the counted inputs of each output, mean over outputs.

    0 for a score that ranks nothing. Outputs with fewer than FEWEST_INPUTS are left out; NaN where
    none is left.
    """
    found = [spearman(score[:, mask].numpy())
             for score, mask in zip(scores, counted, strict=True)
             if int(mask.sum()) >= FEWEST_INPUTS]  # fmt: skip
    if not found:
        return np.full((scores.shape[1],) * 2, np.nan)
    return np.nan_to_num(np.stack(found)).mean(0)


def _summed(each: pd.DataFrame) -> pd.DataFrame:
    """Mean over sentences with its interval."""
    columns = ["model", "form", "weights", "sentences", "effect", "among", "method", "layer"]
    rows = []
    for keys, own in each.dropna(subset="value").groupby(columns, sort=False):
        low, high = resampled_mean(own["value"], seed=0) if len(own) > 1 else (np.nan, np.nan)
        rows.append({**dict(zip(columns, keys, strict=True)), "value": own["value"].mean(),
                     "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows)


def claims(each: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and model of the catalogue, at the output it was trained for; intervals
    over sentences."""
    rows = []
    named = [name for name in set(each["model"]) if name in catalogue() or is_named(name)]
    of_book = each[each["model"].isin(named) & (each["effect"] == BLANK)]
    for model, own in of_book.groupby("model", sort=False):
        own = own.assign(last=own["layer"] == own.groupby("form")["layer"].transform("max"))
        trained = own[own["form"] == own["form"].iloc[-1]].query("among == @ALL")
        words_of = own[own["form"] != POOLED]
        by_word = words_of[words_of["form"] == words_of["form"].iloc[-1]]
        by_word = by_word[by_word["among"] == by_word["among"].iloc[0]]
        top = _wide(trained[trained["last"]])
        bottom = _wide(trained[trained["layer"] == 1])
        above = _wide(trained[trained["layer"] > 1])
        near = _wide(by_word[by_word["last"]])
        found = {
            "rollout-blank-out": top[AS_IS][ROLLOUT],
            "rollout-beats-raw": top[AS_IS][ROLLOUT] - top[AS_IS][RAW],
            "flow-beats-raw": top[AS_IS][FLOW] - top[AS_IS][RAW],
            "rollout-grows": top[AS_IS][ROLLOUT] - bottom[AS_IS][ROLLOUT],
            "raw-first-layer-only": bottom[AS_IS][RAW] - above[AS_IS][RAW],
            "rollout-learnt": top[AS_IS][ROLLOUT] - top[REDRAWN][ROLLOUT],
            "rollout-beyond-nearness": near[AS_IS][ROLLOUT] - near[AS_IS][NEAR],
        }
        rows += [mean_claim(claim, model, values) for claim, values in found.items()]
    return claims_table(rows)


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per sentence, a column per weights and method; layers averaged."""
    return rows.groupby(["sentence", "weights", "method"])["value"].mean().unstack([1, 2])


def shown(
    tables: Tables, model: str, form: str, effect: str = BLANK, weights: str = AS_IS
) -> pd.DataFrame:
    """Rows of a figure: by layer and method; of each word, without the word itself."""
    rows = tables["correlations"]
    own = rows[(rows["model"] == model) & (rows["form"] == form) & (rows["effect"] == effect)
               & (rows["weights"] == weights)]  # fmt: skip
    among = OTHERS if OTHERS in set(own["among"]) else ALL
    drawn = (RAW, ROLLOUT, FLOW) if form == POOLED else (RAW, ROLLOUT, FLOW, NEAR)
    return own[(own["among"] == among) & own["method"].isin(drawn)]


def trained_form(tables: Tables, model: str) -> str:
    """The output of a model that is shown first: the one it was trained for."""
    forms = set(tables["correlations"].query("model == @model")["form"])
    return next(form for form in (TRANSLATION, CAUSAL, POOLED) if form in forms)


def paper(effect: str = BLANK) -> pd.DataFrame:
    """The work's correlations by method and layer."""
    return pd.DataFrame([
        {"method": method, "layer": layer, "value": value}
        for method, values in PAPER[effect].items() for layer, value in enumerate(values, start=1)
    ])  # fmt: skip


def controls(tables: Tables) -> pd.DataFrame:
    """Correlation with blank-out at the last layer: one row per model, form, words and weights."""
    rows = tables["correlations"].query("effect == @BLANK")
    last = rows[rows["layer"] == rows.groupby(["model", "form"])["layer"].transform("max")]
    keys = ["model", "form", "among", "weights"]
    wide = last.pivot(index=keys, columns="method", values="value").map(words.signed)
    wide = wide[[RAW, ROLLOUT, FLOW, NEAR, UNIFORM]].reset_index().rename_axis(columns=None)
    return wide.assign(model=wide["model"].replace(words.TITLES),
                       weights=wide["weights"].replace(AS_IS, TRAINED))  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: correlations by model, output, effect, weights, method, layer."""
    rows = tables["correlations"]
    found: Facts = {"sentences": str(int(rows["sentences"].iloc[0]))}
    others = rows.groupby(["model", "form"])["among"].transform(lambda own: (own == OTHERS).any())
    for row in rows[~others | (rows["among"] == OTHERS)].itertuples():
        if row.method in SHORT:
            names = (row.form, row.effect, row.weights, row.method)
            name = "_".join([row.model.replace("-", "_"), *(SHORT[each] for each in names)])
            found[f"{name}_{row.layer}"] = words.signed(row.value)
            found[f"{name}_{row.layer}_estimate"] = words.difference(row.value, row.low, row.high)
    for effect, methods in PAPER.items():
        for method, values in methods.items():
            for layer in (1, len(values)):
                name = f"paper_{SHORT[effect]}_{SHORT[method]}_{layer}"
                found[name] = words.signed(values[layer - 1])
    every = rows[(rows["model"] == "minilm") & (rows["form"] == WORDS) & (rows["among"] == ALL)
                 & (rows["effect"] == BLANK) & (rows["weights"] == AS_IS)]  # fmt: skip
    for row in every[every["layer"] == every["layer"].max()].itertuples():
        if name := {UNIFORM: "own_uniform", ROLLOUT: "own_rollout"}.get(row.method):
            found[name] = words.signed(row.value)
    return {**found, "paper_distilbert": f"{PAPER_DISTILBERT:.2f}"}
