"""Query and key projections of encoder heads, and models that have one for both."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from headbook.models.capture import Capturable
from headbook.types import Kind


def projections(network: Capturable) -> list[tuple[nn.Linear, nn.Linear, int]]:
    """Query and key projection of every encoder layer, and its number of heads.

    Blocks of ours hold their projections; those that listen to a model of `transformers` name the
    module that does.
    """
    found = []
    for kind, _, block in network.attentions():
        if kind is Kind.ENCODER:
            holder = block if hasattr(block, "query") else network.model.get_submodule(block.name)
            found.append((holder.query, holder.key, block.heads))
    return found


def tied(network: Capturable) -> Capturable:
    """A copy in which every encoder layer's key projection is its query projection."""
    copy = deepcopy(network)
    for query, key, _ in projections(copy):
        key.load_state_dict(query.state_dict())
    return copy


def bilinear(network: Capturable) -> tuple[Tensor, Tensor]:
    """W_Q and W_K of every encoder head, [layer head model dim] each; biases are left out."""
    found = projections(network)
    sides = [[pair[side].weight.detach() for pair in found] for side in (0, 1)]
    heads = (len(found), found[0][2], -1)
    query, key = (torch.cat(side).unflatten(0, heads).mT for side in sides)
    return query, key
