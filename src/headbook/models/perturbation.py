"""Positions that a decoder's outputs depend on, found by changing one token."""

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.models.transformer import Transformer


@torch.inference_mode()
def moved(model: Transformer, tokens: Int[Tensor, "batch token"], changed: int) -> dict[str, float]:
    """The largest change of any logit "before", "at" and "after" a position with another token.

    Before it is 0 in a causal decoder. The model is a decoder alone, in evaluation mode; there are
    positions on either side.
    """
    other = tokens.clone()
    other[:, changed] = (other[:, changed] + 1) % model.config.target_vocabulary
    found = (_logits(model, tokens) - _logits(model, other)).abs().amax((0, 2))
    parts = found[:changed], found[changed], found[changed + 1 :]
    return dict(zip(("before", "at", "after"), (float(part.max()) for part in parts), strict=True))


def _logits(model: Transformer, tokens: Tensor) -> Tensor:
    return model.logits(model.decode(tokens, None, None))
