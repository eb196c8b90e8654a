"""Importance of every head of any loaded model: by gradient, and with the head removed."""

from collections.abc import Collection, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.importance import Losses, block_products
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.looking.effects import Progress, effects
from headbook.models.capture import Capturable
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import Kind

OPERATIONS = 1e12
"""Budget of all ablations together: multiplications and additions, some 15 seconds on two cores."""
FEWEST, MOST = 8, 100
"""Sentences that ablation uses at least and at most."""


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


def by_gradient(
    model: Loaded,
    batches: Sequence[Batch],
    progress: Progress = iter,
    losses: Losses | None = None,
    kinds: Collection[Kind] = tuple(Kind),
) -> Float[Tensor, " head"]:
    """Mean over sentences of |∂L/∂ξ_h|, in nats per sentence, in the order of `all_heads`.

    Michel et al. 2019, equation 2: L is the cross-entropy of a sentence, summed over its tokens, or
    the sum of other `losses` of it. With `kinds`, the heads of these kinds alone.
    """
    heads = [head for head in all_heads(model.network) if head.kind in kinds]
    total, count = torch.zeros(len(heads), dtype=torch.float64), 0
    for batch in progress(batches):
        products = block_products(model.network, batch, losses or model.losses, kinds)
        total += torch.cat([each.sum(-1).abs() for _, each in products], dim=1).sum(0).cpu()
        count += len(batch)
    return total / count


def by_ablation(model: Loaded, batches: Sequence[Batch], progress: Progress = iter) -> RatioSums:
    """Increase without each single head, shape [head] in the order of `all_heads`.

    In nats per predicted token where the model has a loss. An encoder without a head has none:
    there it is 1 minus the cosine between the mean-pooled sentence vectors with and without the
    head. Bootstrap over sentences.
    """
    heads = [partial(closed, model.network, [head]) for head in all_heads(model.network)]
    found = effects(model, batches, heads, progress)
    return RatioSums.over(found.added.T, found.weights[:, None], found.sentences, REPLICATES)
