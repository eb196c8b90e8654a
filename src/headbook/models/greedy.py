"""Greedy search for many sentences at once: finished sentences leave the batch."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headbook.models.attention import MemoryMask
from headbook.models.loaded import Candidates

START = 0
"""The id behind which every translation starts; no network reads it as a word."""
LEAVING = 16
"""One sentence in so many must have ended before any are taken out, which copies all others."""


@torch.inference_mode()
def greedily(
    network: nn.Module,
    memory: Float[Tensor, "batch source model"],
    mask: MemoryMask | None,
    limits: Int[Tensor, " batch"],
    allowed: Candidates,
    end: int,
) -> list[list[int]]:
    """Each row's likeliest allowed ids until `end`, which is left off; the network must be in eval.

    The encoder's output and mask are given; `limits` are the most ids that each row may have. Of
    a `Transformer` these are the translations of beam search with a beam of 1, and faster: there
    every sentence waits for the longest of its batch.
    """
    found: list[list[int]] = [[] for _ in limits]
    rows = torch.arange(len(limits), device=limits.device)
    # Gathered once: candidates may have a third of all weights, and every step needs them.
    scores, cache, length = network.predictor(allowed.ids), network.empty_cache(), 0
    ids, ended = torch.full_like(rows, START), limits <= 0
    while not bool(ended.all()):
        if LEAVING * int(ended.sum()) >= len(ended):
            stay = (~ended).nonzero().squeeze(1)
            rows, ids, ended, limits = (each[stay] for each in (rows, ids, ended, limits))
            memory, mask = memory[stay], None if mask is None else mask[stay]
            cache.select(stay)
        states = network.decode(ids[:, None], memory, mask, cache)[:, -1]
        cache.lay_out()
        logits = scores(states).masked_fill(allowed.barred[rows], -torch.inf)
        ids, length = allowed.ids[logits.argmax(-1)], length + 1
        for row, each, over in zip(rows.tolist(), ids.tolist(), ended.tolist(), strict=True):
            if not over and each != end:
                found[row].append(each)
        ended = ended | (ids == end) | (length >= limits)
    return found
