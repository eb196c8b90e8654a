"""An encoder fine-tuned on the sentiment of sentences, and what is measured of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from headbook.corpora.batches import Batch, EncodedPair, epoch
from headbook.corpora.rated import Rated, written
from headbook.heads.collect import collect
from headbook.heads.marked import MarkedWeight
from headbook.looking.importance import by_gradient
from headbook.models.capture import Point, capture
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded, pooled
from headbook.syntax.alignment import NO_WORD, align_all
from headbook.trees import ROOT, Tree
from headbook.types import HeadId, Kind

TOKENS = 768
"""Padded tokens of a training batch, some thirty sentences."""
RATE, OF_HEAD = 1e-4, 1e-2
"""Learning rates of the encoder and of the new layer on top; both fall to zero along a line."""


@dataclass(frozen=True)
class Sentences:
    """Rated sentences as a model reads them."""

    rated: Sequence[Rated]
    texts: list[str] = field(init=False)
    labels: Float[Tensor, " sentence"] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", [written(each.words)[0] for each in self.rated])
        labels = torch.tensor([float(each.positive) for each in self.rated])
        object.__setattr__(self, "labels", labels)

    def marks(self, model: Loaded, which: str) -> list[Tensor]:
        """True at the tokens of words that are `polar` or `negators`, per sentence."""
        return [_marks(model, each, getattr(each, which)) for each in self.rated]


def _marks(model: Loaded, sentence: Rated, words: Sequence[bool]) -> Tensor:
    text, spans = written(sentence.words)
    count = len(spans)
    tree = Tree(text, tuple(spans), (ROOT,) * count, ("",) * count)
    pieces = align_all(tree, model.spans(text)).pieces
    return torch.tensor(words)[pieces.clamp_min(0)] & (pieces != NO_WORD)


@dataclass(frozen=True)
class Classifier:
    """An encoder and a linear layer on its mean-pooled states."""

    model: Loaded
    output: nn.Linear

    def logits(self, batch: Batch) -> Float[Tensor, " batch"]:
        return self.output(vectors(self.model, batch))[:, 0]


def vectors(model: Loaded, batch: Batch) -> Float[Tensor, "batch width"]:
    """The encoder's last states averaged over each sentence's tokens; UserError without one."""
    return pooled(model.encoded(batch), batch.source_mask)


def probed(model: Loaded, train: Sentences) -> Classifier:
    """The encoder as it is, with logistic regression on its vectors."""
    read = torch.empty(0)
    for batch in model.batches(train.texts):
        with torch.no_grad():
            found = vectors(model, batch)
        if not len(read):
            read = found.new_empty(len(train.texts), found.shape[1])
        read[batch.sentences] = found
    fitted = LogisticRegression(C=10.0, max_iter=1000).fit(read.numpy(), train.labels.numpy())
    output = nn.Linear(read.shape[1], 1)
    output.weight.data = torch.from_numpy(fitted.coef_).float()
    output.bias.data = torch.from_numpy(fitted.intercept_).float()
    return Classifier(model, output)


def tuned(model: Loaded, train: Sentences, seed: int, epochs: int) -> Classifier:
    """All weights of the encoder trained with a new linear layer; the model itself is changed.

    AdamW without dropout; the seed draws the layer and the order of sentences.
    """
    torch.manual_seed(seed)
    output = nn.Linear(len(vectors(model, model.batches(train.texts[:1])[0])[0]), 1)
    found = Classifier(model, output)
    optimiser = torch.optim.AdamW(
        [{"params": list(model.network.parameters()), "lr": RATE},
         {"params": list(output.parameters()), "lr": OF_HEAD}], weight_decay=0.01,
    )  # fmt: skip
    pairs: list[EncodedPair] = [([0] * len(model.spans(text)), [0]) for text in train.texts]
    order = [rows for number in range(epochs) for rows in epoch(pairs, TOKENS, seed, number)]
    falling = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, len(order))
    for rows in tqdm(order, f"fine-tuning, seed {seed}", unit="batch"):
        for batch in model.batches([train.texts[row] for row in rows]):
            labels = train.labels[rows][batch.sentences]
            loss = functional.binary_cross_entropy_with_logits(found.logits(batch), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        falling.step()
    return found


def preferences(model: Loaded, test: Sentences) -> dict[str, np.ndarray]:
    """Weight on polar words and on negators over that of uniform weights, [layer, head] each."""
    measures = {
        name: MarkedWeight(test.marks(model, name), replicates=0) for name in ("polar", "negators")
    }
    collect(model.network, model.batches(test.texts), list(measures.values()), iter)
    return {name: each.compute().numpy() for name, each in measures.items()}


def importance(classifier: Classifier, test: Sentences) -> np.ndarray:
    """Mean over sentences of |∂L/∂ξ|, [layer, head] (Michel et al. 2019, equation 2)."""
    model = classifier.model

    def losses(batch: Batch, shortlist: bool = False) -> Tensor:
        return functional.binary_cross_entropy_with_logits(
            classifier.logits(batch), test.labels[batch.sentences], reduction="none"
        )

    found = by_gradient(model, model.batches(test.texts), losses=losses, kinds={Kind.ENCODER})
    layers = sum(kind is Kind.ENCODER for kind, _, _ in model.network.attentions())
    return found.unflatten(0, (layers, -1)).numpy()


def scored(classifier: Classifier, test: Sentences, removed: Sequence[HeadId]) -> tuple:
    """Accuracy and cross-entropy in nats without these heads."""
    right, nats = 0.0, 0.0
    with torch.no_grad(), closed(classifier.model.network, removed):
        for batch in classifier.model.batches(test.texts):
            logits, labels = classifier.logits(batch), test.labels[batch.sentences]
            right += float(((logits > 0) == (labels > 0.5)).sum())
            nats += float(
                functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
            )
    return right / len(test.texts), nats / len(test.texts)


def encoder_heads(model: Loaded) -> list[HeadId]:
    """Those that a sentence vector depends on: a translator's other heads have no part in it."""
    return [head for head in all_heads(model.network) if head.kind is Kind.ENCODER]


def thirds(model: Loaded) -> dict[str, list[HeadId]]:
    """The encoder heads of the lower, middle and upper third of the layers."""
    heads = encoder_heads(model)
    layers = max(head.layer for head in heads) + 1
    names = ("early", "middle", "late")
    return {
        name: [head for head in heads if 3 * head.layer // layers == at]
        for at, name in enumerate(names)
    }


def maps(model: Loaded, test: Sentences) -> Iterator[tuple[Batch, Float[Tensor, "layer ..."]]]:
    """Attention weights [layer batch head query key] of every batch."""
    for batch in model.batches(test.texts):
        with torch.no_grad(), capture(model.network, {Point.WEIGHTS}) as tape:
            model.network(batch)
        yield batch, torch.stack(tape[Kind.ENCODER, Point.WEIGHTS])


def distance(
    first: Sequence[tuple[Batch, Tensor]], second: Sequence[tuple[Batch, Tensor]]
) -> Float[np.ndarray, "layer head"]:
    """½ Σ_k |α − α'| between the same head of two models, mean over real queries."""
    total, count = 0.0, 0
    for (batch, one), (_, other) in zip(first, second, strict=True):
        real = batch.source_mask
        apart = (one - other).abs().sum(-1) / 2
        total = total + apart.masked_fill(~real[None, :, None], 0.0).sum((1, 3)).double()
        count += int(real.sum())
    return (total / count).numpy()
