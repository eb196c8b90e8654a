"""Importance of every head of any loaded model: by gradient, and with the head removed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from headbook.corpora.batches import Batch
from headbook.heads.importance import block_products
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.models.capture import Capturable
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.types import UserError

OPERATIONS = 1e12
"""Budget of all ablations together: multiplications and additions, some 15 seconds on two cores."""
FEWEST, MOST = 8, 100
"""Sentences that ablation uses at least and at most."""

Progress = Callable[[Iterable], Iterable]


def affordable(network: Capturable, tokens_per_sentence: float, loss: bool) -> int:
    """The number of sentences on which the budget allows every head to be removed in turn.

    A forward pass costs two operations per token and weight; embeddings cost nothing where nothing
    is predicted with them. The number depends on the model and the text, not on the machine.
    """
    weights = sum(each.numel() for each in network.parameters())
    if not loss:
        modules = network.modules()
        weights -= sum(each.weight.numel() for each in modules if isinstance(each, nn.Embedding))
    cost = 2 * max(weights, 1) * tokens_per_sentence * len(all_heads(network))
    return min(max(int(OPERATIONS / cost), FEWEST), MOST)


def predicts(model: Loaded, batch: Batch) -> bool:
    """Whether the model has a loss; an encoder without a head has none."""
    try:
        with torch.inference_mode():
            model.losses(batch)
    except UserError:
        return False
    return True


def by_gradient(
    model: Loaded, batches: Sequence[Batch], progress: Progress = iter
) -> Float[Tensor, " head"]:
    """Mean over sentences of |∂L/∂ξ_h|, in nats per sentence, in the order of `all_heads`.

    Michel et al. 2019, equation 2: L is the cross-entropy of a sentence, summed over its tokens.
    """
    total, count = torch.zeros(len(all_heads(model.network)), dtype=torch.float64), 0
    for batch in progress(batches):
        products = block_products(model.network, batch, model.losses)
        total += torch.cat([each.sum(-1).abs() for _, each in products], dim=1).sum(0).cpu()
        count += len(batch)
    return total / count


def by_ablation(model: Loaded, batches: Sequence[Batch], progress: Progress = iter) -> RatioSums:
    """Increase without each single head, shape [head] in the order of `all_heads`.

    In nats per predicted token where the model has a loss. An encoder without a head has none:
    there it is 1 minus the cosine between the mean-pooled sentence vectors with and without the
    head. Bootstrap over sentences.
    """
    compared = _Nats(model) if predicts(model, batches[0]) else _Vectors(model)
    heads = all_heads(model.network)
    with torch.inference_mode():
        whole = [compared.read(batch) for batch in batches]
        columns = []
        for head in progress(heads):
            with closed(model.network, [head]):
                without = [compared.read(batch) for batch in batches]
            pairs = zip(whole, without, strict=True)
            columns.append(torch.cat([compared.change(*pair) for pair in pairs]).double().cpu())
    weights = torch.cat([compared.weight(batch) for batch in batches]).double().cpu()
    sentences = torch.cat([batch.sentences for batch in batches])
    return RatioSums.over(torch.stack(columns, 1), weights[:, None], sentences, REPLICATES)


@dataclass(frozen=True)
class _Nats:
    """Sentences compared by their cross-entropy, summed over tokens."""

    model: Loaded

    def read(self, batch: Batch) -> Float[Tensor, " batch"]:
        """Of every sentence, summed over its predicted tokens."""
        nats, mask = self.model.losses(batch).double(), self._predicted(batch)
        return nats.new_zeros(mask.shape).masked_scatter(mask, nats).sum(1)

    def change(self, whole: Tensor, without: Tensor) -> Float[Tensor, " batch"]:
        return without - whole

    def weight(self, batch: Batch) -> Float[Tensor, " batch"]:
        return self._predicted(batch).double().sum(1)

    def _predicted(self, batch: Batch) -> Bool[Tensor, "batch token"]:
        """The places of the losses, row by row: all target tokens, or as the model says."""
        predicted = getattr(self.model, "predicted", None)
        return batch.target_mask if predicted is None else predicted(batch)


@dataclass(frozen=True)
class _Vectors:
    """Sentences compared by their vector, the mean over real tokens."""

    model: Loaded

    def read(self, batch: Batch) -> Float[Tensor, "batch model"]:
        vectors = getattr(self.model, "vectors", None)
        if vectors is not None:
            return vectors(batch).double()
        states, mask = self.model.network(batch).double(), batch.source_mask[..., None]
        return states.masked_fill(~mask, 0.0).sum(1) / mask.sum(1)

    def change(self, whole: Tensor, without: Tensor) -> Float[Tensor, " batch"]:
        return 1 - cosine_similarity(whole, without, dim=-1)

    def weight(self, batch: Batch) -> Float[Tensor, " batch"]:
        return batch.source.new_ones(len(batch), dtype=torch.float64)
