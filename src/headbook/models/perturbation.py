"""Positions that a decoder's outputs depend on, found by changing one token."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.models.transformer import Transformer


@dataclass(frozen=True)
class Moved:
    """The largest change of any logit, where the changed token stands and on either side of it."""

    before: float  # 0 in a causal decoder, whatever the token was changed to
    at: float
    after: float


@torch.inference_mode()
def moved(model: Transformer, tokens: Int[Tensor, "batch token"], changed: int) -> Moved:
    """Replaces the token at position `changed` of each row by another and compares the logits.

    The model is a decoder alone, in evaluation mode; there are positions on either side.
    """
    other = tokens.clone()
    other[:, changed] = (other[:, changed] + 1) % model.config.target_vocabulary
    found = (_logits(model, tokens) - _logits(model, other)).abs().amax((0, 2))
    parts = found[:changed], found[changed], found[changed + 1 :]
    return Moved(*(float(part.max()) for part in parts))


def _logits(model: Transformer, tokens: Tensor) -> Tensor:
    return model.logits(model.decode(tokens, None, None))
