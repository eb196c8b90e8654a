"""One attention of three heads in double precision, and texts of several lengths for it."""

import torch

from headbook.models.attention import Attention, AttentionPath

WIDTH, HEADS = 12, 3


def attention(path: AttentionPath = AttentionPath.EXPLICIT) -> Attention:
    torch.manual_seed(0)
    return Attention(WIDTH, HEADS, 0.0, path).double()


def ragged(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """States of three rows, of which two are shorter, and the mask of the padding."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(3, length, WIDTH, generator=generator, dtype=torch.float64)
    sizes = torch.tensor([length, max(1, length // 2), 1])
    return states, (torch.arange(length) < sizes[:, None])[:, None, None]
