"""Importance of every head of any loaded model: by gradient, and with the head removed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.corpora.batches import Batch
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.looking.effects import Progress, effects
from headbook.models.capture import Capturable
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded

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


class SentenceGate(nn.Module):
    """ξ of Michel et al. 2019, one per sentence and head and all 1, so that ∂L/∂ξ can be taken."""

    def __init__(self, sentences: int, heads: int, own: nn.Module | None, like: Tensor) -> None:
        super().__init__()
        self.own = own
        self.xi = torch.ones(sentences, heads, dtype=like.dtype, device=like.device)
        self.xi.requires_grad_()

    def forward(self) -> Float[Tensor, "batch head"]:
        return self.xi if self.own is None else self.xi * self.own()


@contextmanager
def sentence_gates(network: Capturable, sentences: int) -> Iterator[list[SentenceGate]]:
    """A gate of ones on every block, in the order of `all_heads`; own gates come back."""
    like = next(network.parameters())
    blocks = [block for _, _, block in network.attentions()]
    own = [block.gate for block in blocks]
    gates = [
        SentenceGate(sentences, block.heads, gate, like)
        for block, gate in zip(blocks, own, strict=True)
    ]
    try:
        for block, gate in zip(blocks, gates, strict=True):
            block.gate = gate
        yield gates
    finally:
        for block, gate in zip(blocks, own, strict=True):
            block.gate = gate


def by_gradient(
    model: Loaded, batches: Sequence[Batch], progress: Progress = iter
) -> Float[Tensor, " head"]:
    """Mean over sentences of |∂L/∂ξ_h|, in nats per sentence, in the order of `all_heads`.

    Michel et al. 2019, equation 2: L is the cross-entropy of a sentence, summed over its tokens.
    """
    total, count = torch.zeros(len(all_heads(model.network)), dtype=torch.float64), 0
    for batch in progress(batches):
        with torch.enable_grad(), sentence_gates(model.network, len(batch)) as gates:
            loss = model.losses(batch).sum()
            gradients = torch.autograd.grad(loss, [gate.xi for gate in gates])
        total += torch.cat(gradients, dim=1).double().abs().sum(0).cpu()
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
