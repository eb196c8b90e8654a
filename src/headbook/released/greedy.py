"""Greedy search with a student, over all target pieces or each sentence's own candidates."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.models.attention import MemoryMask
from headbook.models.translator import Candidates
from headbook.released.student import EOS, DecoderState, Student
from headbook.text.batches import Batch

GROWTH = 2.5  # a translation has at most so many times the source's pieces, as in Firefox


@torch.inference_mode()
def greedy(network: Student, batch: Batch, allowed: Candidates | None) -> list[list[int]]:
    """Each row's likeliest next pieces until EOS, among those allowed for the batch and the row.

    Finished rows leave the batch.
    """
    memory, mask = network.encode(batch.source, batch.source_mask)
    return greedy_from(network, memory, mask, batch.source_mask, allowed)


@torch.inference_mode()
def greedy_from(
    network: Student,
    memory: Float[Tensor, "batch source model"],
    mask: MemoryMask | None,
    real: Bool[Tensor, "batch source"],
    allowed: Candidates | None,
) -> list[list[int]]:
    """`greedy` from the encoder's output and the mask beside it; `real` says where tokens are."""
    limits = (GROWTH * real.sum(1)).long()
    # Gathered once: candidates have a third of all weights, and every step needs them.
    scores = network.logits if allowed is None else network.predictor(allowed.ids)
    found: list[list[int]] = [[] for _ in range(len(real))]
    rows = torch.arange(len(real), device=memory.device)
    pieces, state = torch.full_like(rows, EOS), DecoderState.empty(len(network.decoder))
    while len(rows):
        states = network.decode(pieces[:, None], memory, mask, state)[:, -1]
        if allowed is None:
            pieces = scores(states).argmax(-1)
        else:
            logits = scores(states).masked_fill(allowed.barred[rows], -torch.inf)
            pieces = allowed.ids[logits.argmax(-1)]
        goes_on = (pieces != EOS) & (state.length < limits[rows])
        for row, piece in zip(rows.tolist(), pieces.tolist(), strict=True):
            if piece != EOS:
                found[row].append(piece)
        if not bool(goes_on.all()):
            stay = goes_on.nonzero().squeeze(1)
            rows, pieces, memory = rows[stay], pieces[stay], memory[stay]
            mask = None if mask is None else mask[stay]
            state.select(stay)
    return found
