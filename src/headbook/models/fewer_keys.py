"""Attention to fewer keys than there are positions, for encoders.

Linformer (Wang et al. 2020) mixes n keys into k by a learned matrix, and values by another; its
control looks at as many means of neighbours.
"""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.attention import Attention, Mask, Reprojected
from headbook.models.transformer import Transformer
from headbook.types import UserError


class Sharing(StrEnum):
    """Sharing of Linformer's projections (section 4, "additional efficiency")."""

    NOTHING = "nothing"  # two per head
    HEADS = "heads"  # of a layer: one for keys and one for values
    KEY_VALUE = "keys and values"  # one per layer
    LAYERS = "layers"  # one in all


class Fewer(StrEnum):
    """Reduction of the number of keys."""

    LINFORMER = "Linformer"
    POOLED = "means of neighbours"


@dataclass(frozen=True)
class FewerKeys:
    """Attention to `keys` keys in texts of at most `length` tokens; UserError for more keys."""

    kind: Fewer
    keys: int
    length: int
    sharing: Sharing = Sharing.LAYERS

    def __post_init__(self) -> None:
        if not 1 <= self.keys <= self.length:
            raise UserError(
                f"{self.keys} keys for texts of {self.length} tokens: give 1 to {self.length}"
            )


class Mixed(Reprojected):
    """softmax(Q (E K)ᵀ / √d) F V with mixing matrices E and F (Wang et al. 2020, equation 7).

    E and F are those of all heads, or one of each per head.

    Keys and values of padding are zero before they are mixed, and a text shorter than the matrices
    are wide uses their first columns. UserError for a longer one. Not causal: the mixtures hold
    later positions too.
    """

    def __init__(
        self,
        attention: Attention,
        keys: Float[Tensor, "*head mixture length"],
        values: Float[Tensor, "*head mixture length"],
    ) -> None:
        super().__init__(attention)
        self.of_keys, self.of_values = keys, values

    def _seen(self, key: Tensor, value: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor, None]:
        length, longest = key.shape[2], self.of_keys.shape[-1]
        if length > longest:
            raise UserError(
                f"a Linformer for {longest} tokens cannot read {length}: cut the text, or build it "
                f"for {length}"
            )
        if mask is not None:
            real = mask.transpose(2, 3)
            key, value = key * real, value * real
        return self.of_keys[..., :length] @ key, self.of_values[..., :length] @ value, None


def look_at_fewer(model: Transformer, fewer: FewerKeys) -> Transformer:
    """The encoder itself, with every attention looking at fewer keys."""
    shared = mixtures(fewer) if fewer.sharing is Sharing.LAYERS else None
    for layer in model.encoder:
        own = shared or mixtures(fewer, layer.attention.heads)
        layer.attention = Mixed(layer.attention, *own)
    return model


def mixtures(fewer: FewerKeys, heads: int = 1) -> tuple[nn.Parameter, nn.Parameter]:
    """The matrices of keys and of values of one layer, the same one where these share it."""
    own = (heads,) if fewer.sharing is Sharing.NOTHING else ()
    keys = _new(fewer, *own)
    apart = fewer.sharing in (Sharing.NOTHING, Sharing.HEADS)
    return keys, _new(fewer, *own) if apart else keys


def _new(fewer: FewerKeys, *heads: int) -> nn.Parameter:
    shape = (*heads, fewer.keys, fewer.length)
    if fewer.kind is Fewer.POOLED:
        return nn.Parameter(means(*shape[-2:]).expand(shape).clone(), requires_grad=False)
    drawn = torch.empty(shape)
    for each in drawn.view(-1, *shape[-2:]):
        # as the authors' code in fairseq starts them
        nn.init.xavier_uniform_(each, gain=2**-0.5)
    return nn.Parameter(drawn)


def means(keys: int, length: int) -> Float[Tensor, "mixture length"]:
    """Each row the mean of as many neighbouring positions as any other, or of one more."""
    owner = torch.arange(length) * keys // length
    belongs = (owner == torch.arange(keys)[:, None]).float()
    return belongs / belongs.sum(1, keepdim=True)
