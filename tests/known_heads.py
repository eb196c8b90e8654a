"""Heads that do one thing exactly: the known answers that every measure has to give back.

Each is a matrix of weights for the source sentences of a batch, [batch query key]. A query that has
nothing to point at points at EOS. Rows of padding point at the first token, so a measure that
forgets to leave them out is found out.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.heads.tokens import NOWHERE
from headbook.models.capture import Point
from headbook.text.alignment import AlignedTree
from headbook.text.batches import Batch
from headbook.text.trees import RELATION_DIRECTIONS, RELATIONS, Direction
from headbook.types import Kind

Weights = Float[Tensor, "batch query key"]


def recording(*layers: Sequence[Weights]) -> dict[tuple[Kind, Point], list[Tensor]]:
    """A recording of encoder self-attention with these heads in each layer."""
    stacked = [torch.stack(list(heads), dim=1) for heads in layers]
    return {(Kind.ENCODER, Point.WEIGHTS): stacked}


def at_offset(batch: Batch, offset: int) -> Weights:
    """Every token points at the one `offset` places to its right; 0 is the identity."""
    query = torch.arange(batch.source.shape[1]).expand_as(batch.source)
    key = query + offset
    inside = (key >= 0) & (key < _eos(batch)[:, None])
    return _pointing(batch, torch.where(inside & (query < _eos(batch)[:, None]), key, NOWHERE))


def uniform(batch: Batch) -> Weights:
    real = batch.source_mask.float()
    return (real / real.sum(1, keepdim=True))[:, None].expand(-1, real.shape[1], -1).clone()


def at_first(batch: Batch) -> Weights:
    return _pointing(batch, torch.zeros_like(batch.source))


def at_eos(batch: Batch) -> Weights:
    return _pointing(batch, torch.full_like(batch.source, NOWHERE))


def at_rarest(batch: Batch, ranks: Int[Tensor, " vocabulary"]) -> Weights:
    """Every token points at the first of the tokens with the highest frequency rank."""
    position = torch.arange(batch.source.shape[1])
    rank = torch.where(position < _eos(batch)[:, None], ranks[batch.source], -1)
    return _pointing(batch, rank.argmax(1, keepdim=True).expand_as(batch.source))


def at_partner(batch: Batch, trees: Sequence[AlignedTree], column: int) -> Weights:
    """Every piece of a word that asks in this relation-direction points at its partner's pieces.

    The first piece gets most, each further one half of the one before. Where a word has several
    partners it points at the last.
    """
    weights = at_eos(batch)
    relation, direction = RELATION_DIRECTIONS[column]
    for row, sentence in enumerate(batch.sentences.tolist()):
        pieces = trees[sentence].pieces
        for index, *ends in trees[sentence].arcs.tolist():
            if RELATIONS[index] != relation:
                continue
            partner, query = ends if direction is Direction.HEAD_TO_DEPENDENT else ends[::-1]
            answer = 0.5 ** (pieces == partner).cumsum(0) * (pieces == partner)
            asking = (pieces == query).nonzero().squeeze(1)
            weights[row, asking] = 0.0
            weights[row, asking, : len(pieces)] = answer / answer.sum()
    return weights


def _pointing(batch: Batch, keys: Int[Tensor, "batch query"]) -> Weights:
    """All weight on one key; on EOS for NOWHERE and at EOS itself unless stated otherwise."""
    keys = torch.where(keys == NOWHERE, _eos(batch)[:, None], keys)
    keys = torch.where(batch.source_mask, keys, 0)
    return torch.nn.functional.one_hot(keys, batch.source.shape[1]).float()


def _eos(batch: Batch) -> Int[Tensor, " batch"]:
    return batch.source_mask.sum(1) - 1
