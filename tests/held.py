"""A network whose gradients are relevance: all that the rules hold constant is a constant in it."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from headbook.released.student import Recurrence
from headbook.types import Kind


def held(values: Tensor, parts: Tensor) -> Tensor:
    """The values as the parts times a constant; of parts that are 0 they are constants."""
    nil = parts == 0
    ratio = (values / parts.masked_fill(nil, 1.0)).detach()
    return torch.where(nil, values.detach(), parts * ratio)


def product(one: Tensor, other: Tensor) -> Tensor:
    """A product of which each factor gets half."""
    return (one * other.detach() + one.detach() * other) / 2


def hold(network: nn.Module, constant: bool = True) -> dict[Kind, list[Tensor]]:
    """From now on the network's passes are held, and its contexts are kept in what is returned.

    With constant attention its weights are constants and a bias is part of its sum; without, the
    factors of every product share, and biases are left out of sums.
    """
    contexts: dict[Kind, list[Tensor]] = {kind: [] for kind, *_ in network.attentions()}
    for kind, _, block in network.attentions():

        def attend(query, key, value, mask, kept=contexts[kind]) -> Tensor:
            scores = product(query[..., :, None, :], key[..., None, :, :]).sum(-1)
            scores = scores * query.shape[-1] ** -0.5
            seen = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            weights = held(seen.softmax(-1), scores)
            if constant:
                kept.append(weights.detach() @ value)
            else:
                kept.append(product(weights[..., None], value[..., None, :, :]).sum(-2))
            return kept[-1]

        block._explicit = attend
    for module in network.modules():
        if isinstance(module, nn.LayerNorm):
            module.register_forward_hook(lambda _, given, gave: held(gave, *given))
        elif isinstance(module, Recurrence):
            module.forget.register_forward_hook(lambda _, given, gave: gave.detach())
        elif isinstance(module, nn.Linear) and not constant:
            module.register_forward_hook(
                lambda own, given, gave: held(gave, linear(*given, own.weight))
            )
    return contexts


def shares(starts: Tensor, contexts: list[Tensor]) -> Tensor:
    """Value times gradient as a share of where each prediction starts, [prediction layer head]."""
    found = []
    for start in starts:
        slopes = torch.autograd.grad(start, contexts, retain_graph=True)
        terms = [each * slope for each, slope in zip(contexts, slopes, strict=True)]
        found.append(torch.stack([each[0].sum((-1, -2)) for each in terms]) / start)
    return torch.stack(found).detach()
