"""Tests of attention as an explanation, over many sentences: rows of the tables of page 56."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from scipy.stats import kendalltau
from torch import Tensor

from headbook.chapters.seeing._classifiers import Outputs, outputs
from headbook.corpora.batches import PAD, EncodedPair, bucket, pad
from headbook.heads.adversary import farthest, jensen_shannon
from headbook.looking import attribution
from headbook.models.pooled import PooledClassifier, without

TOLERANCE = 0.01
"""Of the probability, as in Jain and Wallace 2019."""
PERMUTATIONS = 100
TOKENS = 2048
ATTENTION, GRADIENT, LEFT_OUT, RANDOM = "attention", "gradient", "leave-one-out", "random order"
METHODS: dict[str, Callable[[PooledClassifier, Tensor], Tensor]] = {
    "gradient × input": attribution.gradient_times_input,
    "integrated gradients": attribution.integrated_gradients,
    "Shapley values": attribution.shapley,
}
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Of a sentence's words that are removed."""
Values = list[np.ndarray]
"""One number per word of every sentence."""


def per_word(
    model: PooledClassifier,
    pairs: Sequence[EncodedPair],
    method: Callable[[PooledClassifier, Tensor], Tensor],
) -> Values:
    """A method's values of every sentence's words, in the order of the sentences."""
    found: Values = [np.empty(0)] * len(pairs)
    for rows in bucket(pairs, TOKENS, range(len(pairs))):
        values = method(model, pad([pairs[row][0] for row in rows])).numpy()
        for row, each in zip(rows, values, strict=True):
            found[row] = each[: len(pairs[row][0])]
    return found


def explanations(model: PooledClassifier, pairs: Sequence[EncodedPair]) -> dict[str, Values]:
    """Attention, gradient and leave-one-out of every word."""
    return {
        ATTENTION: outputs(model, pairs).weights,
        GRADIENT: per_word(model, pairs, attribution.sensitivity),
        LEFT_OUT: per_word(model, pairs, attribution.left_out),
    }


def agreement(first: Values, second: Values) -> float:
    """Kendall's τ between the values of a sentence's words, mean over sentences."""
    pairs = zip(first, second, strict=True)
    return float(np.nanmean([kendalltau(*each).statistic for each in pairs]))


def drawn(lengths: Sequence[int], seed: int) -> Values:
    """Random values."""
    noise = np.random.default_rng(seed)
    return [noise.random(length) for length in lengths]


def stress(found: Outputs) -> Iterator[dict[str, float]]:
    """One row per sentence: permuted weights, the farthest weights, the farthest without a bound.

    `permuted` is the median change of the probability over random orders of the weights.
    """
    noise = np.random.default_rng(0)
    for share, weights, scores in zip(found.shares, found.weights, found.scores, strict=True):
        orders = noise.permuted(np.tile(weights, (PERMUTATIONS, 1)), axis=1)
        moved = np.abs(1 / (1 + np.exp(-(orders @ scores))) - share)
        farther = farthest(weights, scores, TOLERANCE)[0]
        yield {"permuted": float(np.median(moved)), "farthest": farther,
               "unbounded": farthest(weights, np.zeros_like(scores), TOLERANCE)[0]}  # fmt: skip


def apart(first: Outputs, second: Outputs) -> tuple[float, float]:
    """Mean over sentences of the JS divergence of the weights and of |ŷ − ŷ'|."""
    pairs = zip(first.weights, second.weights, strict=True)
    far = [float(jensen_shannon(*each)) for each in pairs]
    return float(np.mean(far)), float(np.abs(first.shares - second.shares).mean())


def erasure(
    model: PooledClassifier, pairs: Sequence[EncodedPair], orders: Mapping[str, Values]
) -> Iterator[dict[str, object]]:
    """Fall of the predicted class's probability without the words ranked first.

    One row per method and share of words, mean over sentences.
    """
    signs = np.where(outputs(model, pairs).shares > 0.5, 1.0, -1.0)
    for method, values in orders.items():
        for share in SHARES:
            fall = np.empty(len(pairs))
            for rows in bucket(pairs, TOKENS, range(len(pairs))):
                ids = pad([pairs[row][0] for row in rows])
                removed = torch.zeros_like(ids, dtype=torch.bool)
                for at, row in enumerate(rows):
                    count = int(np.ceil(share * len(values[row])))
                    removed[at, np.argsort(-values[row], kind="stable")[:count].copy()] = True
                with torch.no_grad():
                    whole, left = model(ids), model(without(ids, removed & (ids != PAD)))
                fall[rows] = (whole.logits.sigmoid() - left.logits.sigmoid()).numpy()
            yield {"method": method, "share": share, "drop": float((fall * signs).mean())}
