"""Dropout whose masks are cheap to draw on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 256
"""Masks are drawn from bytes, so a rate is rounded to the nearest multiple of 1/256 below 1."""


def level(rate: float) -> int:
    """Number of the 256 values of a byte that drop an element; never all."""
    return min(round(rate * LEVELS), LEVELS - 1)


def byte_mask(shape: torch.Size, rate: float) -> Tensor:
    """True where an element is dropped; eight elements come from each 64-bit random number.

    Drawing one random number an element is two fifths of a small model's training step on a CPU.
    """
    count = shape.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return (words.view(torch.uint8)[:count] < level(rate)).view(shape)


class Dropout(nn.Module):
    """Zeroes elements with probability `rate` in training and scales the rest to keep the mean."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or self.rate == 0:
            return values
        if values.device.type != "cpu" or torch.compiler.is_compiling():
            return functional.dropout(values, self.rate)
        kept = 1 - level(self.rate) / LEVELS
        # One product with a ready scaled mask: masked_fill and its gradient take twice as long.
        mask = byte_mask(values.shape, self.rate).logical_not_().to(values.dtype)
        return values * mask.mul_(1 / kept)
