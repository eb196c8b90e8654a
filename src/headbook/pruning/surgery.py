"""Surgery: the heads whose gates are 0 are really removed, and the model is smaller and faster."""

from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor, nn

from headbook.models.attention import Attention
from headbook.models.transformer import HeadCounts, Transformer
from headbook.types import Kind, UserError


def take_out(model: Transformer) -> Transformer:
    """A model without the heads whose gate is 0, with the logits of the gated one, in eval mode.

    Rows of W_Q, W_K, W_V and columns of W_O go; a gate between 0 and 1 is multiplied into W_O. A
    block without heads keeps the bias of W_O, which gating leaves as well. UserError for a gate
    that is NaN, and for heads that share keys and values: closed ones would leave uneven groups.
    """
    if model.config.key_value_heads is not None:
        raise UserError("heads that share keys and values are not taken out one by one; gate them")
    model.eval()
    multipliers = {(kind, layer): _multipliers(block) for kind, layer, block in model.attentions()}
    counts = {kind: _counts(multipliers, kind) for kind in Kind}
    smaller = Transformer(replace(model.config, head_counts=HeadCounts(**counts)))
    some = next(model.parameters())
    smaller.to(some.device, some.dtype).eval()
    parameters = {k: v for k, v in model.state_dict().items() if ".gate." not in k}
    names = {id(module): name for name, module in model.named_modules()}
    for kind, layer, block in model.attentions():
        parameters |= _kept(block, multipliers[kind, layer], names[id(block)])
    smaller.load_state_dict(parameters)
    return smaller


def _multipliers(block: Attention) -> Tensor:
    found = torch.ones(block.heads) if block.gate is None else block.gate().detach()
    if found.isnan().any():
        raise UserError("a gate is NaN: nothing was taken out")
    return found.to(block.output.weight)


def _counts(multipliers: dict[tuple[Kind, int], Tensor], kind: Kind) -> tuple[int, ...]:
    layers = sorted(layer for of_kind, layer in multipliers if of_kind is kind)
    return tuple(int((multipliers[kind, layer] != 0).sum()) for layer in layers)


@torch.no_grad()
def _kept(block: Attention, multipliers: Tensor, name: str) -> dict[str, Tensor]:
    """The block's parameters with its closed heads left out; none to change where it has none."""
    if not block.heads:
        return {}
    chosen = multipliers.nonzero().squeeze(1)
    kept = {}
    for part in ("query", "key", "value"):
        linear: nn.Linear = getattr(block, part)
        rows = rearrange(linear.weight, "(head dim) model -> head dim model", head=block.heads)
        bias = rearrange(linear.bias, "(head dim) -> head dim", head=block.heads)
        kept[f"{name}.{part}.weight"] = rearrange(
            rows[chosen], "head dim model -> (head dim) model"
        )
        kept[f"{name}.{part}.bias"] = bias[chosen].flatten()
    columns = rearrange(block.output.weight, "model (head dim) -> model head dim", head=block.heads)
    scaled = columns[:, chosen] * multipliers[chosen, None]
    return kept | {f"{name}.output.weight": scaled.flatten(1)}
