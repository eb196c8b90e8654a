"""An encoder fine-tuned on the sentiment of reviews, and heads removed before or after (page 61).

Kovaleva et al. (2019) compare BERT's attention before and after fine-tuning; Budhraja et al. (2020)
remove heads first and fine-tune what is left. One pass over 800 sentences of SST takes about a
minute; three models have six trainings for each of three seeds.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from headbook.corpora.rated import Rated, decided, load_rated, spread, written
from headbook.experiments.learning import descent
from headbook.looking.importance import by_gradient
from headbook.looking.load import load
from headbook.models.loaded import Loaded, pooled
from headbook.text.alignment import align_all
from headbook.text.batches import Batch, EncodedPair, epoch
from headbook.text.trees import ROOT, Tree
from headbook.types import Kind

TOKENS, LONGEST = 768, 25
"""Padded tokens of a training batch, some thirty sentences; words of the longest sentence."""
RATE, OF_LAYER = 1e-4, 1e-2
"""Learning rates of the encoder and of the layer on top; both fall to zero along a line."""


@dataclass(frozen=True)
class Sentences:
    """Rated sentences: their texts, and 1 for the positive ones."""

    rated: Sequence[Rated]

    @cached_property
    def texts(self) -> list[str]:
        return [written(each.words)[0] for each in self.rated]

    @cached_property
    def labels(self) -> Float[Tensor, " sentence"]:
        return torch.tensor([float(each.positive) for each in self.rated])

    @property
    def larger(self) -> float:
        """Share of the larger class."""
        good = float(self.labels.mean())
        return max(good, 1 - good)

    def marks(self, model: Loaded, which: str) -> list[Bool[Tensor, " token"]]:
        """True at a sentence's tokens of words that are "polar", or "negators"."""
        found = []
        for each, text in zip(self.rated, self.texts, strict=True):
            spans, count = written(each.words)[1], len(each.words)
            tree = Tree(text, tuple(spans), (ROOT,) * count, ("",) * count)
            words = align_all(tree, model.spans(text)).pieces
            found.append(torch.tensor(getattr(each, which))[words.clamp_min(0)] & (words >= 0))
        return found

    def shuffled(self, seed: int) -> "Sentences":
        """The same sentences, each with the rating of another."""
        ratings = [each.rating for each in self.rated]
        random.Random(1000 + seed).shuffle(ratings)
        pairs = zip(self.rated, ratings, strict=True)
        return Sentences([replace(each, rating=rating) for each, rating in pairs])


@dataclass(frozen=True)
class Classifier:
    """An encoder and a linear layer on its mean-pooled states."""

    model: Loaded
    output: nn.Linear

    def logits(self, batch: Batch) -> Float[Tensor, " batch"]:
        return self.output(pooled(self.model.encoded(batch), batch.source_mask))[:, 0]

    def losses(self, batch: Batch, labels: Tensor) -> Float[Tensor, " batch"]:
        """Cross-entropy in nats; `labels` are those of all sentences."""
        return cross_entropy(self.logits(batch), labels[batch.sentences], reduction="none")


def reviews(corpus: str, train: int, test: int, seed: int) -> tuple[Sentences, Sentences]:
    """Short sentences that are good or bad: so many drawn for training, and so many for tests."""
    short = {name: [each for each in decided(split) if len(each.words) <= LONGEST]
             for name, split in load_rated(corpus).items()}  # fmt: skip
    drawn = random.Random(seed).sample(short["train"], train)
    return Sentences(drawn), Sentences(spread(short["test"], test))


def fitted(model: Loaded, train: Sentences) -> Classifier:
    """The encoder as it is, with logistic regression on its vectors."""
    with torch.no_grad():
        batches = model.batches(train.texts)
        parts = [pooled(model.encoded(each), each.source_mask) for each in batches]
    order = torch.cat([each.sentences for each in batches]).argsort()
    found = LogisticRegression(C=10.0, max_iter=1000)
    found.fit(torch.cat(parts)[order].numpy(), train.labels.numpy())
    output = nn.Linear(found.coef_.shape[1], 1)
    output.weight.data = torch.from_numpy(found.coef_).float()
    output.bias.data = torch.from_numpy(found.intercept_).float()
    return Classifier(model, output)


def tuned(model: Loaded, train: Sentences, seed: int, tokens: int = TOKENS) -> Classifier:
    """All weights of the encoder trained with a new linear layer; the model itself is changed.

    One pass of AdamW without dropout; the seed draws the layer and the order of sentences.
    """
    torch.manual_seed(seed)
    width = model.encoded(model.batches(train.texts[:1])[0]).shape[-1]
    found = Classifier(model, nn.Linear(width, 1))
    parts = (model.network, RATE), (found.output, OF_LAYER)
    groups = [{"params": list(part.parameters()), "lr": rate} for part, rate in parts]
    pairs: list[EncodedPair] = [([0] * len(model.spans(text)), [0]) for text in train.texts]
    order = list(epoch(pairs, tokens, seed, 0))
    descend = descent(
        groups,
        lambda adam: torch.optim.lr_scheduler.LinearLR(adam, 1.0, 0.0, len(order)),
        weight_decay=0.01,
        decoupled_weight_decay=True,
    )
    for rows in order:
        (batch,) = model.batches([train.texts[row] for row in rows])
        descend(found.losses(batch, train.labels[rows]).mean())
    return found


@cache
def learner(
    name: str, corpus: str, train: int, seed: int, tokens: int, shuffled: bool
) -> Classifier:
    """`tuned` on so many sentences, or on these with the labels of others; made once."""
    learnt, _ = reviews(corpus, train, 1, seed)
    return tuned(load(name), learnt.shuffled(seed) if shuffled else learnt, seed, tokens)


def importance(found: Classifier, test: Sentences) -> Float[np.ndarray, "layer head"]:
    """Mean over sentences of |∂L/∂ξ| (Michel et al. 2019, equation 2)."""
    model = found.model
    each = by_gradient(
        model, model.batches(test.texts), kinds={Kind.ENCODER},
        losses=lambda batch, shortlist=False: found.losses(batch, test.labels),
    )  # fmt: skip
    layers = sum(kind is Kind.ENCODER for kind, _, _ in model.network.attentions())
    return each.ratio().unflatten(0, (layers, -1)).numpy()
