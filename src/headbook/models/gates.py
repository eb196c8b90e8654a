"""Gates: one multiplier per head, on its output before W_O; absent unless one is set."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.capture import Capturable
from headbook.types import HeadId, UserError


class FixedGate(nn.Module):
    """MultiHead = Concat(g_1 head_1 … g_h head_h) W_O with fixed g (Voita et al. 2019, 6.1).

    The multipliers are a buffer: they are saved with the model and never trained.
    """

    def __init__(self, multipliers: Float[Tensor, "*sentence head"]) -> None:
        super().__init__()
        self.register_buffer("multipliers", multipliers)

    def forward(self) -> Float[Tensor, "*sentence head"]:
        return self.multipliers


def all_heads(model: Capturable) -> list[HeadId]:
    """Every head of the model, block by block from the input upward."""
    return [
        HeadId(kind, layer, head)
        for kind, layer, block in model.attentions()
        for head in range(block.heads)
    ]


def close_heads(model: Capturable, heads: Iterable[HeadId]) -> None:
    """Gates these heads at 0 and all others at 1; UserError for a head the model lacks."""
    heads = set(heads)
    unknown = heads - set(all_heads(model))
    if unknown:
        raise UserError(
            f"the model has no head {min(unknown).label} of {min(unknown).kind} attention"
        )
    weight = next(model.parameters())
    for kind, layer, block in model.attentions():
        open_ = [HeadId(kind, layer, head) not in heads for head in range(block.heads)]
        block.gate = FixedGate(torch.tensor(open_, dtype=weight.dtype, device=weight.device))


@contextmanager
def closed(model: Capturable, heads: Iterable[HeadId]) -> Iterator[None]:
    """The model without these heads for as long as the block lasts; its own gates stay in effect,
    and come back."""
    kept = [(block, block.gate) for _, _, block in model.attentions()]
    try:
        close_heads(model, heads)
        for block, gate in kept:
            if gate is not None:
                block.gate = FixedGate(block.gate() * gate().detach())
        yield
    finally:
        for block, gate in kept:
            block.gate = gate
