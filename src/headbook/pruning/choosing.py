"""A gate that reads: which heads are open depends on the sentence, and how many does not."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.capture import Capturable
from headbook.pruning.hard_concrete import (
    CONSTANTS,
    SMALLEST,
    Constants,
    Source,
    gate_at,
    open_probability,
)
from headbook.types import Kind, UserError

HALVINGS = 40
"""Steps in which the shift of the logits is found; each halves the interval it lies in."""
FARTHEST = 60.0


class Chooser(nn.Module):
    """log α of every head of a kind for each sentence, b + W x, shifted to one budget.

    `x` is a vector of the sentence. The shift makes the expected number of open Hard Concrete gates
    `open_heads` for each sentence, so there is no penalty to weigh; at test time exactly so many
    heads, those of the largest log α, are open. Without `reads` W is left out: the same heads for
    every sentence.
    """

    def __init__(
        self,
        heads: int,
        width: int,
        open_heads: int,
        reads: bool,
        constants: Constants = CONSTANTS[Source.CODE],
    ) -> None:
        super().__init__()
        if not 0 < open_heads < heads:
            raise UserError(f"{open_heads} of {heads} heads open: give a number in between")
        self.bias = nn.Parameter(torch.zeros(heads))
        self.weight = nn.Parameter(torch.zeros(heads, width), requires_grad=reads)
        self.open_heads, self.constants = open_heads, constants

    def forward(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch head"]:
        """A draw of the gates in training, else 0 and 1."""
        logits = self.log_alpha(x)
        if not self.training:
            chosen = logits.topk(self.open_heads, dim=-1).indices
            return torch.zeros_like(logits).scatter(-1, chosen, 1.0)
        uniform = torch.empty_like(logits).uniform_(SMALLEST, 1 - SMALLEST)
        return gate_at(logits, uniform, self.constants)

    def log_alpha(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch head"]:
        """Shifted so that the probabilities of being open sum to the budget, part of the graph."""
        logits = self.bias + x @ self.weight.T
        shift = self._shift(logits.detach())
        chance = open_probability(logits - shift, self.constants)
        slope = (chance * (1 - chance)).sum(-1, keepdim=True).detach()
        # One step of Newton's method: zero in value, and the gradient of the shift.
        return logits - shift - (chance.sum(-1, keepdim=True) - self.open_heads) / slope

    def _shift(self, logits: Float[Tensor, "batch head"]) -> Float[Tensor, "batch 1"]:
        low = logits.amin(-1, keepdim=True) - FARTHEST
        high = logits.amax(-1, keepdim=True) + FARTHEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            many = open_probability(logits - middle, self.constants).sum(-1, keepdim=True)
            above = many > self.open_heads
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        return (low + high) / 2


class _Given(nn.Module):
    """Multipliers that somebody else drew, [batch head]."""

    def __init__(self, values: Float[Tensor, "batch head"]) -> None:
        super().__init__()
        self.values = values

    def forward(self) -> Float[Tensor, "batch head"]:
        return self.values


@contextmanager
def given_gates(
    model: Capturable, kind: Kind, values: Float[Tensor, "batch head"]
) -> Iterator[None]:
    """The heads of a kind, layer after layer, times these multipliers, a row per sentence.

    The gates that were there come back. UserError where the model has another number of heads.
    """
    blocks = [block for own, _, block in model.attentions() if own is kind]
    if sum(block.heads for block in blocks) != values.shape[1]:
        raise UserError(f"{values.shape[1]} gates for another number of {kind} heads")
    before = [block.gate for block in blocks]
    parts = values.split([block.heads for block in blocks], dim=1)
    try:
        for block, part in zip(blocks, parts, strict=True):
            block.gate = _Given(part)
        yield
    finally:
        for block, gate in zip(blocks, before, strict=True):
            block.gate = gate
