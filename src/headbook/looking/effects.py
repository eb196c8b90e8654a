"""Effects of interventions on any loaded model, sentence by sentence: loss, or sentence vector."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity

from headbook.models.loaded import Loaded, pooled
from headbook.text.batches import Batch
from headbook.types import UserError

Intervention = Callable[[], AbstractContextManager]
"""Changes the model for as long as a `with` block lasts: `partial(closed, network, heads)`."""

Progress = Callable[[Iterable], Iterable]

NATS, VECTORS = "nats per predicted token", "1 - cosine of the sentence vector"


@dataclass(frozen=True)
class Effects:
    """Increase under each intervention; sentences in the order of their numbers.

    `added` are nats summed over a sentence's predicted tokens, of which there are `weights`; of a
    model without a loss 1 minus the cosine between the sentence's vectors, with weight 1.
    """

    added: Float[Tensor, "intervention sentence"]
    weights: Float[Tensor, " sentence"]
    sentences: Int[Tensor, " sentence"]
    unit: str

    @cached_property
    def mean(self) -> Float[Tensor, " intervention"]:
        """Per predicted token, or per sentence."""
        return self.added.sum(1) / self.weights.sum()


def effects(
    model: Loaded,
    batches: Sequence[Batch],
    interventions: Sequence[Intervention],
    progress: Progress = iter,
) -> Effects:
    """The model under each intervention against the model as it is, without gradients."""
    compared = compared_by(model, batches[0])
    with torch.inference_mode():
        whole = [compared.read(batch) for batch in batches]
        rows = []
        for intervention in progress(interventions):
            with intervention():
                changed = [compared.read(batch) for batch in batches]
            pairs = zip(whole, changed, strict=True)
            rows.append(torch.cat([compared.change(*pair) for pair in pairs]).double().cpu())
    weights = torch.cat([compared.weight(batch) for batch in batches]).double().cpu()
    sentences = torch.cat([batch.sentences for batch in batches])
    order = sentences.argsort()
    added = torch.stack(rows) if rows else weights.new_zeros(0, len(weights))
    return Effects(added[:, order], weights[order], sentences[order], compared.unit)


def loss(
    model: Loaded, batches: Sequence[Batch], shortlist: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Nats of each sentence, summed over its predicted tokens, and the number of these tokens.

    Two arrays [sentence], in the order of the sentences' numbers (`model.batches`). With the
    `shortlist` probabilities are among the words that a translator with such a list chooses from;
    of other models they stay as they are. UserError where the model predicts nothing.
    """
    read = Nats(model, shortlist=shortlist)
    with torch.inference_mode():
        parts = [torch.stack([read.read(each), read.weight(each)]) for each in batches]
    order = torch.cat([each.sentences for each in batches]).argsort()
    nats, tokens = torch.cat(parts, 1)[:, order].cpu().numpy()
    return nats, tokens.astype(np.int64)


def own_batches(model: Loaded, sentences: Sequence[str], tokens: int = 1024) -> list[Batch]:
    """The sentences, of a translation model with its own greedy translations as targets."""
    try:
        return model.batches(sentences, model.translate(sentences), tokens)
    except UserError:  # it translates nothing
        return model.batches(sentences, None, tokens)


def predicts(model: Loaded, batch: Batch) -> bool:
    """Whether the model has a loss; an encoder without a head has none."""
    try:
        with torch.inference_mode():
            model.losses(batch.select(slice(1)))
    except UserError:
        return False
    return True


@dataclass(frozen=True)
class Nats:
    """Sentences compared by their cross-entropy, summed over predicted tokens."""

    model: Loaded
    unit: str = NATS
    shortlist: bool = False

    def read(self, batch: Batch) -> Float[Tensor, " batch"]:
        """Of every sentence."""
        return self._placed(batch).sum(1)

    def halves(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The same over every other predicted token, from the first and from the second on."""
        placed, mask = self._placed(batch), self._predicted(batch)
        first, second = ((placed * every_other(mask, half)).sum(1) for half in (0, 1))
        return first, second

    def change(self, whole: Tensor, without: Tensor) -> Float[Tensor, " batch"]:
        return without - whole

    def weight(self, batch: Batch) -> Float[Tensor, " batch"]:
        return self._predicted(batch).double().sum(1)

    def _placed(self, batch: Batch) -> Float[Tensor, "batch token"]:
        nats, mask = self.model.losses(batch, self.shortlist).cpu().double(), self._predicted(batch)
        return nats.new_zeros(mask.shape).masked_scatter(mask, nats)

    def _predicted(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """The places of the losses, row by row: all target tokens, or as the model says."""
        predicted = getattr(self.model, "predicted", None)
        return (batch.target_mask if predicted is None else predicted(batch)).cpu()


@dataclass(frozen=True)
class Vectors:
    """Sentences compared by their vector, the mean over real tokens."""

    model: Loaded
    unit: str = VECTORS

    def read(self, batch: Batch) -> Float[Tensor, "batch model"]:
        return pooled(self.model.encoded(batch).cpu().double(), self._real(batch))

    def halves(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The mean over every other token, from the first and from the second on."""
        states, real = self.model.encoded(batch).cpu().double(), self._real(batch)
        first, second = (pooled(states, every_other(real, half)) for half in (0, 1))
        return first, second

    def change(self, whole: Tensor, without: Tensor) -> Float[Tensor, " batch"]:
        return 1 - cosine_similarity(whole, without, dim=-1)

    def weight(self, batch: Batch) -> Float[Tensor, " batch"]:
        return batch.source.new_ones(len(batch), dtype=torch.float64)

    def _real(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """The tokens that are read; a decoder has no source."""
        return (batch.source_mask if batch.source_mask.any() else batch.target_mask).cpu()


def compared_by(model: Loaded, batch: Batch) -> Nats | Vectors:
    """By the loss where the model has one, else by sentence vectors."""
    return Nats(model) if predicts(model, batch) else Vectors(model)


def every_other(mask: Bool[Tensor, "batch token"], first: int) -> Bool[Tensor, "batch token"]:
    """Every other True of each row, from the first (0) or second (1) on."""
    return mask & (mask.cumsum(1) % 2 == 1 - first)


def joined(parts: Sequence[Effects]) -> Effects:
    """Effects of the same interventions on several batches, as on all of them together."""
    sentences = torch.cat([part.sentences for part in parts])
    order = sentences.argsort()
    added = torch.cat([part.added for part in parts], dim=1)[:, order]
    weights = torch.cat([part.weights for part in parts])[order]
    return Effects(added, weights, sentences[order], parts[0].unit)
