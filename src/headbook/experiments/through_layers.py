"""Attention followed down to the words, compared with words left out (page 52).

Rollout and maximum flow (Abnar and Zuidema 2020, section 3) for every output of a model: each
word's state, their mean, a target token. The published tables, of four models with weights drawn
anew and with gradients, took twelve minutes on one thread.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import accumulate

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from headbook.experiments.word_effects import (
    TRANSLATION,
    VECTOR,
    WORD,
    Words,
    blank_out,
    input_gradients,
)
from headbook.heads.nulls import Null, without_knowledge
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.statistics import spearman
from headbook.text.batches import Batch
from headbook.types import Kind

Layers = list[Float[np.ndarray, "from to"]]
Weights = Sequence[Float[np.ndarray, "_ _ _"]]  # [head query key] by layer
Scores = Float[np.ndarray, "output word"]
UNIT = 2**28  # capacities are whole numbers: a weight of one


def mixing(own: Weights, cross: Weights = ()) -> Layers:
    """A = ½ W + ½ I by layer: the heads' mean, and the skip around them.

    With cross-attention a translation's tokens stand first; a decoder's own attention is left out.
    """
    layers = [(each.mean(0) + np.eye(each.shape[1])) / 2 for each in own]
    if not len(cross):
        return layers
    target, source = map(np.eye, cross[0].shape[1:])
    none = np.zeros((len(target), len(source)))
    layers = [np.block([[target, none], [none.T, layer]]) for layer in layers]
    rows = [[[target / 2, each.mean(0) / 2], [none.T, source]] for each in cross]
    return layers + [np.block(each) for each in rows]


def rollout(layers: Layers) -> Layers:
    """Shares of the input tokens in each state, by layer: the product of the layers below."""
    return list(accumulate(layers, lambda below, layer: layer @ below))


def flow(layers: Layers, asks: Float[np.ndarray, " node"], words: Words) -> list[float]:
    """Maximum flow to each input token from the states that `asks` weighs; A are capacities."""
    size = len(layers[0])
    pipes = np.zeros((size * (len(layers) + 1) + 1,) * 2)
    for low, layer in enumerate(layers):
        pipes[(low + 1) * size : (low + 2) * size, low * size : (low + 1) * size] = layer
    pipes[-1, -1 - size : -1] = asks
    graph = csr_array((pipes * UNIT).astype("int32"))
    return [maximum_flow(graph, len(pipes) - 1, word).flow_value / UNIT for word in words]


def scores(
    own: Weights, cross: Weights, asks: Float[np.ndarray, "output token"], words: Words
) -> dict[str, list[Scores]]:
    """By method and layer a number [output, word]; `asks` weighs the tokens of each output."""
    read, layers = cross or own, mixing(own, cross)
    even = [[np.full_like(each[:1], 1 / each.shape[2]) for each in kind] for kind in (own, cross)]
    (target, source), count = read[0].shape[1:], len(read)
    nodes = words + len(layers[0]) - source
    states = np.pad(asks, ((0, 0), (0, len(layers[0]) - target)))
    tops = range(len(layers) - count + 1, len(layers) + 1)
    near = abs(asks.argmax(1)[:, None] / target - words / source)
    shares, alike = (rollout(each)[-count:] for each in (layers, mixing(*even)))
    return {
        "raw weights": [asks @ each.mean(0)[:, words] for each in read],
        "rollout": [states @ each[:, nodes] for each in shares],
        "flow": [np.array([flow(layers[:top], one, nodes) for one in states]) for top in tops],
        "nearness": [-near * (asks.max(1) == 1)[:, None]] * count,  # a mean is as near to each
        "rollout, weights all equal": [states @ each[:, nodes] for each in alike],
    }


def agreement(score: Scores, effect: Scores, counted: Bool[np.ndarray, "output word"]) -> float:
    """Spearman's ρ over the counted words, mean of outputs; 0 for a score that ranks nothing."""
    # Equal scores differ in the last bits, which would rank them.
    pairs = zip(np.round(score, 7), effect, counted, strict=True)
    found = [spearman(np.stack([one[some], other[some]]))[0, 1] for one, other, some in pairs]
    return float(np.nan_to_num(found).mean())


def measured(model: Loaded, batch: Batch, output: str, effect: str) -> list[tuple]:
    """Words counted, method, layer and ρ, in a batch of one sentence."""
    with torch.no_grad(), capture(model.network, {Point.WEIGHTS}) as tape:
        model.network(batch)
    own = [each[0].double().numpy() for each in tape[Kind.ENCODER, Point.WEIGHTS]]
    words = (batch.source_mask & ~batch.source_boundary)[0].numpy().nonzero()[0]
    cross, places, asks = [], words, np.eye(batch.source.shape[1])
    if output == VECTOR:
        places, asks = np.array([0]), asks.mean(0, keepdims=True)
    if output == TRANSLATION:
        cross = [each[0].double().numpy() for each in tape[Kind.CROSS, Point.WEIGHTS]]
        places = (batch.target_mask & ~batch.output_boundary)[0].numpy().nonzero()[0]
        asks = np.eye(batch.target_in.shape[1])
    of = blank_out if effect == "blank-out" else input_gradients
    truth = of(model, batch, output, words)[places].double().numpy()
    counted = {"other words": ~np.eye(len(words), dtype=bool)} if output == WORD else {}
    counted["all words"] = np.ones(truth.shape, bool)
    found = scores(own, cross, asks[places], words)
    return [(among, method, layer, agreement(score, truth, some))
            for among, some in counted.items() for method, layers in found.items()
            for layer, score in enumerate(layers, 1)]  # fmt: skip


def in_text(
    model: Loaded, sentences: Sequence[str], output: str, effect: str, weights: str = "released"
) -> pd.DataFrame:
    """One row per words counted, method, layer and sentence; `weights` may be "drawn anew"."""
    targets = model.translate(sentences) if output == TRANSLATION else None
    anew = without_knowledge(model.network, Null.DRAWN, 0)
    rows = []
    with anew if weights == "drawn anew" else nullcontext():
        for at, sentence in enumerate(sentences):
            (batch,) = model.batches([sentence], targets and targets[at : at + 1])
            rows += [(*row, at) for row in measured(model, batch, output, effect)]
    return pd.DataFrame(rows, columns=["among", "method", "layer", "value", "sentence"])
