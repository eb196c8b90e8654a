"""Importance of every head of any loaded model: by gradient, and with the head removed."""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial, reduce
from operator import add

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.bootstrap import mixed
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.looking.effects import Progress, effects
from headbook.models.capture import Capturable, Point, capture
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded, there
from headbook.text.batches import Batch
from headbook.types import HeadId, Kind

Losses = Callable[[Batch], Float[Tensor, "..."]]
"""Nats of a batch's target tokens."""
OPERATIONS, RESOLVING = 1e12, 5e12
"""Budgets of multiplications and additions: of removing every head in turn, and the first alone."""
FEWEST, MOST = 8, 100
"""Sentences that ablation uses at least, and at most where every head is removed."""
SHARE, AT_LEAST = 0.1, 16
"""Of all heads these are removed by default, those that the gradient puts first."""


def operations(network: Capturable, loss: bool) -> float:
    """Operations of a forward pass per token: two for each weight.

    Embeddings cost nothing where nothing is predicted with them. The number depends on the model,
    not on the machine.
    """
    weights = sum(each.numel() for each in network.parameters())
    if not loss:
        modules = network.modules()
        weights -= sum(each.weight.numel() for each in modules if isinstance(each, nn.Embedding))
    return 2.0 * max(weights, 1)


def chosen(sentences: int, count: int) -> list[int]:
    """Numbers of `count` sentences in ascending order, drawn by a hash: the same every time.

    Those of a smaller count are among those of a larger.
    """
    order = mixed(torch.arange(sentences) + _DRAWN).argsort()
    return sorted(order[:count].tolist())


_DRAWN = 1 << 41
"""Keeps these draws apart from the bootstrap's and the random heads'."""


def batches_of(batches: Sequence[Batch], rows: Sequence[int]) -> list[Batch]:
    """The batches with these sentences only."""
    wanted = torch.tensor(rows, dtype=torch.long)
    kept = [(batch, torch.isin(batch.sentences, wanted)) for batch in batches]
    return [batch.select(rows_kept) for batch, rows_kept in kept if bool(rows_kept.any())]


def first_count(heads: int) -> int:
    """Of so many heads, how many a default ablation removes."""
    return min(heads, max(AT_LEAST, math.ceil(SHARE * heads)))


def first_by(gradient: Float[Tensor, " head"]) -> list[int]:
    """The places of these, in the order of `all_heads`."""
    order = gradient.argsort(descending=True, stable=True)
    return sorted(order[: first_count(len(gradient))].tolist())


def by_gradient(
    model: Loaded,
    batches: Sequence[Batch],
    progress: Progress = iter,
    losses: Losses | None = None,
    kinds: Collection[Kind] = tuple(Kind),
    positions: bool = False,
) -> RatioSums:
    """Mean over sentences of |∂L/∂ξ_h|, in nats per sentence, [head] in the order of `all_heads`.

    Michel et al. 2019, equation 2: L is the cross-entropy of a sentence, summed over its tokens, or
    the sum of other `losses` of it, and ∂L/∂ξ_h the sum over positions of Att_h(x)ᵀ ∂L/∂Att_h(x).
    With `positions` the mean over positions of the absolute products, as in the authors' code. With
    `kinds`, the heads of these kinds alone. Bootstrap over sentences.
    """
    parts = []
    for batch in progress(batches):
        products = _products(model.network, batch, losses or model.losses, kinds)
        sizes = [each.abs().sum(-1) if positions else each.sum(-1).abs() for each, _ in products]
        counts = [size.new_ones(size.shape) if not positions
                  else real.sum(-1, keepdim=True).to(size).expand_as(size)
                  for size, (_, real) in zip(sizes, products, strict=True)]  # fmt: skip
        both = (torch.cat(each, 1).cpu() for each in (sizes, counts))
        parts.append(RatioSums.over(*both, batch.sentences.cpu(), REPLICATES))
    return reduce(add, parts)


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
        made = {kind: iter(tape[kind, Point.CONTEXT])
                for kind in kinds if (kind, Point.CONTEXT) in tape}  # fmt: skip
        blocks = [(kind, next(made[kind])) for kind, _, block in network.attentions()
                  if kind in made and block.heads]  # fmt: skip
        gradients = torch.autograd.grad(loss, [context for _, context in blocks])
    found = []
    for (kind, context), gradient in zip(blocks, gradients, strict=True):
        real = batch.source_mask if kind is Kind.ENCODER else batch.target_mask
        products = (context.detach().double() * gradient.double()).sum(-1)
        found.append((products.masked_fill(~real[:, None], 0.0), real))
    return found


def by_ablation(
    model: Loaded,
    batches: Sequence[Batch],
    progress: Progress = iter,
    heads: Sequence[HeadId] | None = None,
) -> RatioSums:
    """Increase without each single head, shape [head], by default in the order of `all_heads`.

    In nats per predicted token where the model has a loss. An encoder without a head has none:
    there it is 1 minus the cosine between the mean-pooled sentence vectors with and without the
    head. Bootstrap over sentences; all heads are compared with the model on the same tokens.
    """
    without = [partial(closed, model.network, [head]) for head in heads or all_heads(model.network)]
    found = effects(model, batches, without, progress)
    added = found.added.T
    weights = found.weights[:, None].expand_as(added)
    return RatioSums.over(added, weights, found.sentences, REPLICATES)


def resolved(
    model: Loaded, batches: Sequence[Batch], most: int, progress: Progress, heads: Sequence[HeadId]
) -> tuple[RatioSums, int]:
    """As `by_ablation`, on as many sentences as resolve these heads, and their number.

    They are twice as many again until no interval holds zero, or `most`.
    """
    sentences, parts, done = sum(map(len, batches)), [], 0
    most = min(most, sentences)
    while done < most:
        wanted = min(max(2 * done, FEWEST), most)
        new = sorted(set(chosen(sentences, wanted)) - set(chosen(sentences, done)))
        parts.append(by_ablation(model, batches_of(batches, new), progress, heads))
        found, done = reduce(add, parts), wanted
        low, high = found.interval()
        if bool(((low > 0) | (high < 0)).all()):
            break
    return found, done
