"""Importance of every head of any loaded model: by gradient, and with the head removed."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.measure import REPLICATES, RatioSums
from headbook.looking.effects import Progress, effects
from headbook.models.capture import Capturable, Point, capture
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded, there
from headbook.text.batches import Batch
from headbook.types import Kind

Losses = Callable[[Batch], Float[Tensor, "..."]]
"""Nats of a batch's target tokens."""
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
    positions: bool = False,
) -> Float[Tensor, " head"]:
    """Mean over sentences of |∂L/∂ξ_h|, in nats per sentence, in the order of `all_heads`.

    Michel et al. 2019, equation 2: L is the cross-entropy of a sentence, summed over its tokens, or
    the sum of other `losses` of it, and ∂L/∂ξ_h the sum over positions of Att_h(x)ᵀ ∂L/∂Att_h(x).
    With `positions` the mean over positions of the absolute products, as in the authors' code. With
    `kinds`, the heads of these kinds alone.
    """
    totals: list[Tensor] = []
    for batch in progress(batches):
        products = _products(model.network, batch, losses or model.losses, kinds)
        sizes = [each.abs().sum((0, 2)) if positions else each.sum(-1).abs().sum(0)
                 for each, _ in products]  # fmt: skip
        counts = [torch.full_like(size, float(real.sum()) if positions else len(batch))
                  for size, (_, real) in zip(sizes, products, strict=True)]  # fmt: skip
        totals.append(torch.stack([torch.cat(sizes), torch.cat(counts)]).cpu())
    total, count = torch.stack(totals).sum(0)
    return total / count


def _products(
    network: Capturable, batch: Batch, losses: Losses, kinds: Collection[Kind]
) -> list[tuple[Float[Tensor, "batch head query"], Tensor]]:
    """Att_h(x)ᵀ ∂L/∂Att_h(x) at every position of every block of these kinds, in float64.

    0 at padding, whatever stands there; and where queries are real. Blocks may differ in their
    number of heads. L is summed over sentences: each one's gradient is its own then.
    """
    batch = there(network, batch)
    with torch.enable_grad(), capture(network, {Point.CONTEXT}) as tape:
        loss = losses(batch).sum()
        blocks = [(kind, tape[kind, Point.CONTEXT][at]) for kind, at, _ in network.attentions()
                  if kind in kinds]  # fmt: skip
        gradients = torch.autograd.grad(loss, [context for _, context in blocks])
    found = []
    for (kind, context), gradient in zip(blocks, gradients, strict=True):
        real = batch.source_mask if kind is Kind.ENCODER else batch.target_mask
        products = (context.detach().double() * gradient.double()).sum(-1)
        found.append((products.masked_fill(~real[:, None], 0.0), real))
    return found


def by_ablation(model: Loaded, batches: Sequence[Batch], progress: Progress = iter) -> RatioSums:
    """Increase without each single head, shape [head] in the order of `all_heads`.

    In nats per predicted token where the model has a loss. An encoder without a head has none:
    there it is 1 minus the cosine between the mean-pooled sentence vectors with and without the
    head. Bootstrap over sentences.
    """
    heads = [partial(closed, model.network, [head]) for head in all_heads(model.network)]
    found = effects(model, batches, heads, progress)
    return RatioSums.over(found.added.T, found.weights[:, None], found.sentences, REPLICATES)
