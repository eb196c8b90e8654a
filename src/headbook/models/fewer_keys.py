"""Attention to fewer keys than there are positions, for encoders.

Linformer (Wang et al. 2020) mixes n keys into k by a learned matrix, and values by another; its
control looks at as many means of neighbours.
"""

from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.attention import Attention, Mask, Reprojected
from headbook.models.transformer import Transformer


class Sharing(StrEnum):
    """Sharing of Linformer's projections (section 4, "additional efficiency")."""

    NOTHING = "nothing"  # two per head
    HEADS = "heads"  # of a layer: one for keys and one for values
    KEY_VALUE = "keys and values"  # one per layer
    LAYERS = "layers"  # one in all


class Mixed(Reprojected):
    """softmax(Q (E K)ᵀ / √d) F V with mixing matrices E and F (Wang et al. 2020, equation 7).

    E and F are those of all heads, or one of each per head.

    Keys and values of padding are zero before they are mixed, and a text shorter than the matrices
    are wide uses their first columns. Not causal: the mixtures hold later positions too.
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
        length = key.shape[2]
        if mask is not None:
            real = mask.transpose(2, 3)
            key, value = key * real, value * real
        return self.of_keys[..., :length] @ key, self.of_values[..., :length] @ value, None


def look_at_fewer(
    model: Transformer, keys: int, length: int, sharing: Sharing | None
) -> Transformer:
    """The encoder itself, with every attention looking at so many keys."""
    shared = sharing in (Sharing.LAYERS, None) and mixtures(keys, length, sharing)
    for layer in model.encoder:
        own = shared or mixtures(keys, length, sharing, layer.attention.heads)
        layer.attention = Mixed(layer.attention, *own)
    return model


def mixtures(
    keys: int, length: int, sharing: Sharing | None = Sharing.LAYERS, heads: int = 1
) -> tuple[nn.Parameter, nn.Parameter]:
    """The matrices of keys and of values of one layer, for texts of at most `length` tokens.

    They are the same one where keys and values share it, and means of neighbours that are never
    trained where `sharing` is None.
    """
    if sharing is None:
        return (nn.Parameter(means(keys, length), requires_grad=False),) * 2
    own = (heads,) if sharing is Sharing.NOTHING else ()
    drawn = torch.empty(1 + (sharing in (Sharing.NOTHING, Sharing.HEADS)), *own, keys, length)
    for each in drawn.view(-1, keys, length):
        # as the authors' code in fairseq starts them
        nn.init.xavier_uniform_(each, gain=2**-0.5)
    made = [nn.Parameter(each.clone()) for each in drawn]
    return made[0], made[-1]


def means(keys: int, length: int) -> Float[Tensor, "mixture length"]:
    """Each row the mean of as many neighbouring positions as any other, or of one more."""
    owner = torch.arange(length) * keys // length
    belongs = (owner == torch.arange(keys)[:, None]).float()
    return belongs / belongs.sum(1, keepdim=True)
