"""DropHead: whole heads are left out at random in training (Zhou et al. 2020)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.transformer import Transformer
from headbook.types import UserError


@dataclass(frozen=True)
class DropHeadSchedule:
    """The rate from `start` to 0 at the share `turn` of the updates, and from there to `end`: a V.

    Without a turn it goes from `start` to `end` in a line: two equal numbers are one rate.
    """

    start: float
    end: float
    turn: float | None = None

    def __post_init__(self) -> None:
        for rate in (self.start, self.end):
            if not 0 <= rate < 1:
                raise UserError(f"heads are dropped at a rate of 0 or more and below 1, not {rate}")

    def rate(self, update: int, updates: int) -> float:
        """At an update, counted from one, of so many."""
        done = (update - 1) / max(updates - 1, 1)
        if self.turn is None:
            return self.start + (self.end - self.start) * done
        if done <= self.turn:
            return self.start * (1 - done / self.turn)
        return self.end * (done - self.turn) / (1 - self.turn)


class DropHead(nn.Module):
    """Leaves out each head of each sentence with probability `rate`; all are on at test time.

    Those that stay are multiplied by heads / staying, so that the sum is as large. Where all are
    left out the block adds its output bias alone: nothing is divided by zero.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rate = 0.0

    def forward(
        self, context: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        if not self.training or self.rate == 0:
            return context
        batch, heads = context.shape[:2]
        stays = torch.rand(batch, heads, device=context.device) >= self.rate
        scale = heads / stays.sum(1, keepdim=True).clamp(min=1)
        return context * (stays * scale).to(context.dtype)[:, :, None, None]


def drop_heads(model: Transformer) -> None:
    """Lets every block drop heads, at rate 0 until `set_rate` says otherwise."""
    for _, _, block in model.attentions():
        block.drop_head = DropHead()


def set_rate(model: Transformer, rate: float) -> None:
    """The rate of every block of a model that drops heads."""
    for _, _, block in model.attentions():
        block.drop_head.rate = rate
