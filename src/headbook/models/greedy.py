"""Greedy search for many sentences at once: finished sentences leave the batch."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.models.attention import MemoryMask
from headbook.models.decoding import LEAVING
from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, PAD


@torch.inference_mode()
def translate_greedily(
    model: Transformer,
    memory: Float[Tensor, "batch source model"],
    mask: MemoryMask | None,
    limits: Int[Tensor, " batch"],
) -> list[list[int]]:
    """Target ids of each sentence's likeliest next tokens, EOS left off; the model must be in eval.

    The same as `translate` with a beam of 1 from the encoder's output and mask, and faster: there
    every sentence waits for the longest of its batch. `limits` are the most tokens each may have.
    """
    found: list[list[int]] = [[] for _ in limits]
    rows = torch.arange(len(limits), device=limits.device)
    tokens = torch.full_like(rows, PAD)
    cache, length = model.empty_cache(), 0
    ended = limits <= 0
    while not bool(ended.all()):
        if LEAVING * int(ended.sum()) >= len(ended):
            stay = (~ended).nonzero().squeeze(1)
            rows, tokens, ended, limits = (each[stay] for each in (rows, tokens, ended, limits))
            memory, mask = memory[stay], None if mask is None else mask[stay]
            cache.select(stay)
        states = model.decode(tokens[:, None], memory, mask, cache)
        cache.lay_out()
        tokens, length = _likeliest(model, states[:, -1]), length + 1
        for row, token, over in zip(rows.tolist(), tokens.tolist(), ended.tolist(), strict=True):
            if not over and token != EOS:
                found[row].append(token)
        ended = ended | (tokens == EOS) | (length >= limits)
    return found


def _likeliest(model: Transformer, states: Float[Tensor, "row model"]) -> Int[Tensor, " row"]:
    logits = model.logits(states)
    logits[:, PAD] = -torch.inf
    return logits.argmax(-1)
