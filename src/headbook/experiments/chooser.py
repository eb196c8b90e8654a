"""A gate that reads: which of an encoder's heads are open depends on the sentence (page 58).

How many are open does not, so that there is no penalty to weigh against the loss.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.capture import Capturable, Point, capture
from headbook.models.gates import FixedGate, closed
from headbook.models.loaded import Loaded, pooled
from headbook.pruning.hard_concrete import CONSTANTS, SMALLEST, gate_at, open_probability
from headbook.text.batches import Batch
from headbook.types import Kind

CODE = CONSTANTS["code"]
Gates = list[Float[Tensor, "_ head"]]
"""Multipliers of the encoder's heads: per batch one row per sentence."""


class Chooser(nn.Module):
    """Gates of n heads for a sentence's vector x: log α = b + W x, shifted so that k are open.

    In training a draw of Hard Concrete gates of which k are expected open; else 1 for the k heads
    of the largest log α. Without `reads` W stays 0: the same heads for every sentence.
    """

    def __init__(self, heads: int, width: int, open_heads: int, reads: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(heads))
        self.weight = nn.Parameter(torch.zeros(heads, width), requires_grad=reads)
        self.open_heads = open_heads

    def forward(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch head"]:
        logits = self.bias + x @ self.weight.T
        if not self.training:
            chosen = logits.topk(self.open_heads, dim=-1).indices
            return torch.zeros_like(logits).scatter(-1, chosen, 1.0)
        uniform = torch.empty_like(logits).uniform_(SMALLEST, 1 - SMALLEST)
        return gate_at(shifted(logits, self.open_heads), uniform, CODE)


def shifted(logits: Float[Tensor, "batch head"], open_heads: int) -> Float[Tensor, "batch head"]:
    """log α less one number per row, so that the probabilities of being open sum to `open_heads`.

    The number is found by halving an interval; a last step of Newton's method has its gradient.
    """
    known, rows = logits.detach(), {"dim": -1, "keepdim": True}
    low, high = known.amin(**rows) - 60, known.amax(**rows) + 60
    for _ in range(40):
        middle = (low + high) / 2
        above = open_probability(known - middle, CODE).sum(**rows) > open_heads
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    chance = open_probability(logits - (low + high) / 2, CODE)
    slope = (chance * (1 - chance)).sum(**rows).detach()
    return logits - (low + high) / 2 - (chance.sum(**rows) - open_heads) / slope


def blocks(network: Capturable) -> list[nn.Module]:
    """Attention blocks of the encoder: those of the first kind, from the bottom."""
    every = list(network.attentions())
    return [block for kind, _, block in every if kind is every[0][0]]


@contextmanager
def given_gates(network: Capturable, values: Float[Tensor, "batch head"]) -> Iterator[None]:
    """The encoder's heads times these multipliers; the gates that were there come back."""
    places = blocks(network)
    parts = values.split([block.heads for block in places], dim=1)
    with closed(network, []):
        for block, part in zip(places, parts, strict=True):
            block.gate = FixedGate(part)
        yield


def vectors(model: Loaded, batches: Sequence[Batch]) -> list[Float[Tensor, "_ width"]]:
    """Mean embeddings of sentences, as the values of the first layer, which are linear in them."""
    kind, found = next(iter(model.network.attentions()))[0], []
    for batch in batches:
        with torch.inference_mode(), capture(model.network, {Point.VALUES}) as tape:
            model.network(batch)
        values = tape[kind, Point.VALUES][0].transpose(1, 2).flatten(2)
        real = batch.target_mask if kind is Kind.DECODER else batch.source_mask
        found.append(pooled(values, real).clone())
    return found


def permuted(gates: Gates, seed: int) -> Gates:
    """Every sentence with the gates of another: one step on in a random order."""
    rows = torch.cat(gates)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    moved = torch.empty_like(rows)
    moved[order] = rows[order.roll(1)]
    return list(moved.split([len(each) for each in gates]))
