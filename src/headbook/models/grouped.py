"""Making heads share keys and values: grouped-query attention (Ainslie et al. 2023).

Multi-query attention (Shazeer 2019) is the case of one key-value head.
"""

from dataclasses import replace

import torch
from einops import reduce

from headbook.models.attention import Attention
from headbook.models.transformer import Transformer
from headbook.types import Kind


@torch.no_grad()
def pooled(model: Transformer, key_value_heads: int) -> Transformer:
    """The model with fewer key-value heads, each the mean of its group's; queries stay.

    In decoder and cross-attention, in eval mode. UserError where the heads do not divide into as
    many groups, or share keys and values already in another number of them.
    """
    smaller = Transformer(replace(model.config, key_value_heads=key_value_heads))
    some = next(model.parameters())
    parameters = dict(model.state_dict())
    names = {id(module): name for name, module in model.named_modules()}
    for kind, _, block in model.attentions():
        if kind is not Kind.ENCODER:
            parameters |= _means(block, key_value_heads, names[id(block)])
    smaller.to(some.device, some.dtype).load_state_dict(parameters)
    return smaller.eval()


def _means(block: Attention, groups: int, name: str) -> dict[str, torch.Tensor]:
    pattern = "(group member dim) ... -> (group dim) ..."
    members = block.key_value_heads // groups
    return {
        f"{name}.{part}.{kept}": reduce(
            getattr(getattr(block, part), kept), pattern, "mean", group=groups, member=members
        )
        for part in ("key", "value")
        for kept in ("weight", "bias")
    }
