"""Classifiers of reviews that pool their words by attention, and their adversaries (page 56).

Jain and Wallace 2019: weights α = softmax(v · tanh(W h_t)) of states h_t, and a linear layer behind
Σ α_t h_t; so the logit is Σ α_t s_t, with a score s_t = u · h_t + b of each word. Wiegreffe and
Pinter 2019: weights that are imposed, or trained to be others where the output stays.
The 30 published trainings and all measures of them took 25 minutes on one core.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import pad_sequence

from headbook.corpora.rated import PLANTED
from headbook.experiments.learning import descent
from headbook.experiments.review_words import WIDTH, Pairs, reviews, vectors
from headbook.models.pooled import PooledClassifier
from headbook.results import cached
from headbook.text.batches import bucket, epoch, pad

TOKENS = 1024  # padded, of a batch


@dataclass(frozen=True)
class Setting:
    """One training. A "BiLSTM", a "transformer" of one layer or an "MLP" reads the words.

    It pools with weights of its own, uniform ones, or those of the model `imposed`; or it learns
    the outputs of the model `of` with weights that are the farther the larger `strength` is.
    """

    reader: str = "BiLSTM"
    seed: int = 0
    epochs: int = 4
    corpus: str = "sst"  # or "planted", made up: one word decides
    uniform: bool = False
    imposed: Optional["Setting"] = None
    of: Optional["Setting"] = None
    strength: float = 0.0


class Outputs(NamedTuple):
    """Probability of the positive class by sentence; weights and scores of each one's words."""

    p: np.ndarray
    weights: list[np.ndarray]
    scores: list[np.ndarray]

    def accuracy(self, pairs: Pairs) -> float:
        """Share of the sentences that are classified as they are labelled."""
        return float(((self.p > 0.5) == [label for _, (label,) in pairs]).mean())


def padded(weights: Sequence[np.ndarray], rows: Sequence[int]) -> Tensor:
    return pad_sequence([torch.from_numpy(weights[row]).float() for row in rows], True)


@torch.no_grad()
def outputs(
    model: PooledClassifier, pairs: Pairs, imposed: Sequence[np.ndarray] | None = None
) -> Outputs:
    """What a model gives for each sentence, with its own weights or imposed ones."""
    p, weights, scores = np.empty(len(pairs)), [None] * len(pairs), [None] * len(pairs)
    for rows in bucket(pairs, 4 * TOKENS, range(len(pairs))):
        given = None if imposed is None else padded(imposed, rows)
        found = model(pad([pairs[row][0] for row in rows]), given)
        p[rows] = found.logits.sigmoid().numpy()
        for row, *each in zip(rows, found.weights, found.scores, strict=True):
            own = (one[: len(pairs[row][0])].double().numpy() for one in each)
            weights[row], scores[row] = own
    return Outputs(p, weights, scores)


def untrained(setting: Setting) -> PooledClassifier:
    """Words start from MiniLM's vectors, those of the planted corpus from random ones."""
    words = len(reviews(setting.corpus).words)
    model = PooledClassifier(words, setting.reader, WIDTH, setting.uniform)
    if setting.corpus != PLANTED:
        model.words.weight.data.copy_(vectors(setting.corpus))
    return model


def train(setting: Setting) -> PooledClassifier:
    """The model after its best pass over the text by the dev set, an adversary after its last."""
    model, state = untrained(setting), cached(_trained, setting=setting)
    model.load_state_dict({name: torch.from_numpy(each) for name, each in state.items()})
    return model.eval()


def _trained(setting: Setting) -> dict[str, np.ndarray]:
    text, other = reviews(setting.corpus), setting.imposed or setting.of
    known = other and [outputs(train(other), part) for part in text[:2]]
    given = [each.weights for each in known] if setting.imposed else [None, None]
    torch.manual_seed(setting.seed)
    model = untrained(setting)
    descend = descent(model.parameters(), lr=1e-3, weight_decay=1e-5)
    labels = torch.tensor([label for _, (label,) in text.train]).float()
    best, kept = -1.0, {}
    for number in range(setting.epochs):
        model.train()
        for rows in epoch(text.train, TOKENS, setting.seed, number):
            weights = given[0] and padded(given[0], rows)
            found = model(pad([text.train[row][0] for row in rows]), weights)
            if setting.of is None:
                loss = binary_cross_entropy_with_logits(found.logits, labels[rows])
            else:  # |ŷ − ŷ'| − λ KL(α ‖ α'), Wiegreffe and Pinter 2019, section 4
                apart = found.logits.sigmoid() - torch.from_numpy(known[0].p[rows]).float()
                a, b = (w.clamp_min(1e-9) for w in (found.weights, padded(known[0].weights, rows)))
                far = (found.weights * (a / b).log()).sum(1)
                loss = (apart.abs() - setting.strength * far).mean()
            descend(loss)
        right = outputs(model.eval(), text.dev, given[1]).accuracy(text.dev)
        if right > best or setting.of is not None:
            best = right
            kept = {name: each.clone().numpy() for name, each in model.state_dict().items()}
    return kept
