"""W_O split by head: each part maps a head's context to the head's contribution."""

from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from headbook.models.capture import Capturable
from headbook.types import Kind, UserError

Parts = list[Float[Tensor, "head dim model"]]
"""One tensor per layer."""


def output_parts(model: Capturable, kind: Kind) -> Parts:
    """W_O^h of every layer of this kind; a head adds C_h W_O^h.

    UserError where a block's output projection is out of reach.
    """
    found = []
    for of_kind, layer, block in model.attentions():
        if of_kind is kind:
            weight = getattr(block, "output_weight", None)
            if weight is None:
                raise UserError(
                    f"{kind} layer {layer + 1} shows no output projection, so what a head adds is "
                    "not known: use a model of headbook, a Firefox student or one of transformers"
                )
            shape = "model (head dim) -> head dim model"
            found.append(rearrange(weight.detach(), shape, head=block.heads))
    return found
