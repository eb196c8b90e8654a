"""Attention to fewer keys than there are positions, for encoders.

Linformer (Wang et al. 2020) mixes n keys into k by a learned matrix, and values by another; its
control looks at as many means of neighbours.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.attention import Attention, Mask, Reprojected


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


def mixture(*shape: int) -> nn.Parameter:
    """A matrix [mixture, length], or one per head, as the authors' code in fairseq starts them."""
    drawn = torch.empty(shape)
    for each in drawn.view(-1, *shape[-2:]):
        nn.init.xavier_uniform_(each, gain=2**-0.5)
    return nn.Parameter(drawn)


def means(keys: int, length: int) -> Float[Tensor, "mixture length"]:
    """Each row the mean of as many neighbouring positions as any other, or of one more."""
    owner = torch.arange(length) * keys // length
    belongs = (owner == torch.arange(keys)[:, None]).float()
    return belongs / belongs.sum(1, keepdim=True)
