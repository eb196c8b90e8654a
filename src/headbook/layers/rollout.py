"""Attention followed down through the layers: rollout (Abnar and Zuidema 2020, section 3).

A layer is a matrix A whose row i says from which tokens below token i is mixed, its skip included;
rows sum to one. Tokens are the nodes of a layered graph, and A its edges between two layers.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

Mixing = Float[Tensor, "node node"]


def mixing(weights: Float[Tensor, "head token token"]) -> Mixing:
    """A = ½ W + ½ I: the heads' mean, and as much for the skip around the layer."""
    mean = weights.mean(0)
    return (mean + torch.eye(len(mean), dtype=mean.dtype, device=mean.device)) / 2


def translating(
    encoder: Sequence[Float[Tensor, "source source"]],
    own: Sequence[Float[Tensor, "target target"]],
    cross: Sequence[Float[Tensor, "head target source"]],
) -> tuple[list[Mixing], list[int]]:
    """An encoder-decoder as layers over its target tokens and, behind them, its source tokens.

    `encoder` and `own` are the `mixing` of its self-attention, `cross` the weights of its
    cross-attention; `own` is empty where a decoder has none. The second value is the number of
    layers of that graph below the top of each decoder layer. Source tokens stay as they are while
    the decoder runs: it reads the top of the encoder.
    """
    target, source = (torch.eye(size, dtype=cross[0].dtype) for size in cross[0].shape[1:])
    steps = [torch.block_diag(target, each) for each in encoder]
    ends = []
    for layer, weights in enumerate(cross):
        if own:
            steps.append(torch.block_diag(own[layer], source))
        step = torch.block_diag(target / 2, source)
        step[: len(target), len(target) :] = weights.mean(0) / 2
        steps.append(step)
        ends.append(len(steps))
    return steps, ends


def rollout(layers: Sequence[Mixing]) -> list[Mixing]:
    """Ã_l = A_l Ã_{l−1} with Ã_1 = A_1: shares of the input tokens in each token, by layer."""
    found: list[Tensor] = []
    for layer in layers:
        found.append(layer @ found[-1] if found else layer)
    return found
