"""DropHead: whole heads are left out at random in training (Zhou et al. 2020)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.transformer import Transformer


def rate_at(rate: float, turn: float | None, update: int, updates: int) -> float:
    """The rate at an update, counted from one, of so many.

    It is the same all along; or with a turn a V, which falls to 0 at that share of the updates and
    rises again.
    """
    done = (update - 1) / max(updates - 1, 1)
    if turn is None:
        return rate
    return rate * (1 - done / turn) if done <= turn else rate * (done - turn) / (1 - turn)


class DropHead(nn.Module):
    """Leaves out each head of each sentence with probability `rate`; all are on at test time.

    Those that stay are multiplied by heads / staying, so that the sum is as large. Where all are
    left out the block adds its output bias alone: nothing is divided by zero.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(
        self, context: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        if not self.training or self.rate == 0:
            return context
        batch, heads = context.shape[:2]
        stays = torch.rand(batch, heads, device=context.device) >= self.rate
        scale = heads / stays.sum(1, keepdim=True).clamp(min=1)
        return context * (stays * scale).to(context.dtype)[:, :, None, None]


def drop_heads(model: Transformer, rate: float) -> None:
    """Lets every block drop heads at this rate from now on."""
    for _, _, block in model.attentions():
        block.drop_head = DropHead(rate).train(block.training)
