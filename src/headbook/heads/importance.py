"""Importance of a head by gradient: how much the loss would feel it go, to first order."""

from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from headbook.heads.measure import REPLICATES, RatioSums
from headbook.models.capture import Capturable, Point, capture
from headbook.text.batches import PAD, Batch
from headbook.types import Kind


class Form(StrEnum):
    """Where the absolute value is taken in I_h = E_x |Att_h(x)ᵀ ∂L/∂Att_h(x)| (Michel et al.)."""

    POSITION = "position"
    """Of each position's product; the mean is over positions, as in the authors' code."""
    SENTENCE = "sentence"
    """Of their sum, which is ∂L/∂ξ_h; the mean is over sentences, as the formula reads."""


Contributions = tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]
"""Contributions of each sentence to a score's numerator and denominator."""


Losses = Callable[[Batch], Float[Tensor, "..."]]
"""Nats of a batch's target tokens."""


def importance(
    model: Capturable,
    batches: Iterable[Batch],
    replicates: int = REPLICATES,
    losses: Losses | None = None,
) -> dict[str, RatioSums]:
    """Scores of every head, [layer, head], by name: `position/encoder`, `sentence/cross` and so on.

    Michel et al. 2019, equation 2, in nats. L is a sentence's cross-entropy summed over its target
    tokens, EOS among them, without label smoothing and without dropout. Scores are as measured:
    see `l2_normalised`. The model is left in the mode it was in; its gradients are not touched.
    `losses` are those of a model whose target ids are not ours (`Loaded.losses`).
    """
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    sums: dict[str, RatioSums] = {}
    try:
        for batch in batches:
            for name, added in contributions(model, batch.to(device), losses).items():
                seen = RatioSums.over(*added, batch.sentences.to(device), replicates)
                sums[name] = _plus(sums[name], seen) if name in sums else seen
    finally:
        model.train(training)
    return sums


def contributions(
    model: Capturable, batch: Batch, losses: Losses | None = None
) -> dict[str, Contributions]:
    """Contribution of each sentence of a batch to every score, by one forward and backward pass."""
    of_kind: dict[Kind, list[Tensor]] = {}
    for kind, products in block_products(model, batch, losses):
        of_kind.setdefault(kind, []).append(products)
    found = {}
    for kind, layers in of_kind.items():
        products, tokens = torch.stack(layers, dim=1), _real(batch, kind).sum(-1).double()
        tokens = tokens[:, None, None]
        found[f"{Form.POSITION}/{kind}"] = products.abs().sum(-1), tokens
        found[f"{Form.SENTENCE}/{kind}"] = products.sum(-1).abs(), torch.ones_like(tokens)
    return found


def block_products(
    model: Capturable, batch: Batch, losses: Losses | None = None,
    kinds: Collection[Kind] = tuple(Kind),
) -> Iterator[tuple[Kind, Float[Tensor, "batch head query"]]]:  # fmt: skip
    """Att_h(x)ᵀ ∂L/∂Att_h(x) of every block of these kinds, in the order of `attentions`.

    Its sum over positions is ∂L/∂ξ_h of the sentence. Blocks may differ in their number of heads.
    Losses that read the encoder alone have no part in the other kinds.
    """
    with torch.enable_grad(), capture(model, {Point.CONTEXT}) as tape:
        loss = _loss(model(batch), batch) if losses is None else losses(batch).sum()
        blocks = [(kind, tape[kind, Point.CONTEXT][at]) for kind, at, _ in model.attentions()
                  if kind in kinds]  # fmt: skip
        gradients = torch.autograd.grad(loss, [context for _, context in blocks])
    for (kind, context), gradient in zip(blocks, gradients, strict=True):
        yield kind, products_of(context, gradient, _real(batch, kind))


def _real(batch: Batch, kind: Kind) -> Bool[Tensor, "batch query"]:
    """Queries that are no padding."""
    return batch.source_mask if kind is Kind.ENCODER else batch.target_mask


def products_of(
    context: Float[Tensor, "batch head query dim"],
    gradient: Float[Tensor, "batch head query dim"],
    real: Bool[Tensor, "batch query"],
) -> Float[Tensor, "batch head query"]:
    """Att_h(x)ᵀ ∂L/∂Att_h(x) at every position, float64, 0 at padding whatever stands there."""
    products = (context.detach().double() * gradient.double()).sum(-1)
    return products.masked_fill(~real[:, None], 0.0)


def l2_normalised(scores: Float[Tensor, "layer head"]) -> Float[Tensor, "layer head"]:
    """Each layer's scores at length 1 (Molchanov et al. 2017); a layer of zeros stays so."""
    lengths = torch.linalg.vector_norm(scores, dim=1, keepdim=True)
    return torch.where(lengths == 0, scores, scores / lengths)


def _loss(logits: Float[Tensor, "batch position vocabulary"], batch: Batch) -> Float[Tensor, ""]:
    """Cross-entropy in nats, summed over sentences: each one's gradient is its own then.

    A mean over the batch would make the scores depend on how sentences are batched.
    """
    target = batch.target_out
    return functional.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum"
    )


def _plus(one: RatioSums, other: RatioSums) -> RatioSums:
    return RatioSums(one.numerator + other.numerator, one.denominator + other.denominator)
