"""The query, key and value projections of a loaded model's heads, whoever trained it."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from headbook.models.capture import Block, Capturable
from headbook.types import Kind, UserError

NAMES = (("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"),
         ("q", "k", "v"))  # fmt: skip
"""Names of the three projections in attention modules."""


def projections(
    network: Capturable, name: str = "the model"
) -> Iterator[tuple[Kind, int, Block, nn.Linear, nn.Linear, nn.Linear]]:
    """Kind, layer, block, and the query, key and value layers of every attention block.

    UserError for a model whose projections are not layers of their own.
    """
    for kind, layer, block in network.attentions():
        yield kind, layer, block, *_layers(getattr(block, "module", block), name)


def encoder_weights(network: Capturable) -> tuple[Tensor, Tensor, Tensor]:
    """W_Q, W_K and W_V of every encoder head, [layer head model dim] each, without biases.

    UserError as of `projections`.
    """
    found = [each for each in projections(network) if each[0] is Kind.ENCODER]
    query, key, value = (
        torch.stack([_by_head(each[side].weight, each[2].heads) for each in found])
        for side in (3, 4, 5)
    )
    return query, key, value


def _layers(module: nn.Module, name: str) -> tuple[nn.Linear, ...]:
    for names in NAMES:
        found = tuple(getattr(module, each, None) for each in names)
        if all(isinstance(each, nn.Linear) for each in found):
            return found
    raise UserError(
        f"{name}: {type(module).__name__} has no query, key and value layers of its own"
    )


def _by_head(weight: Tensor, heads: int) -> Tensor:
    """[head model dim] of a linear layer's [out in]."""
    return weight.detach().unflatten(0, (heads, -1)).transpose(1, 2)
