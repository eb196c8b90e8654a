"""Attention to fewer keys than there are positions, for encoders.

Linformer (Wang et al. 2020) mixes n keys into k by a learned matrix, and values by another. Its two
controls look at as many: means of neighbours, and the k positions around the query.
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
    WINDOW = "window"


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
    are wide uses their first columns. UserError for a longer one, and where what a query may see
    depends on the query: the mixtures hold later positions too.
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
            if mask.shape[2] > 1:
                raise UserError(
                    "Linformer cannot be causal: each of its keys mixes all positions, so later "
                    "ones cannot be hidden; use it in an encoder"
                )
            real = mask.transpose(2, 3)
            key, value = key * real, value * real
        return self.of_keys[..., :length] @ key, self.of_values[..., :length] @ value, None


class Windowed(Reprojected):
    """Each query sees the positions around its own, `keys` in all; an odd number has two sides.

    Masks a full matrix: a control for what is lost, not for what is saved.
    """

    def __init__(self, attention: Attention, keys: int) -> None:
        super().__init__(attention)
        self.before, self.behind = keys // 2, (keys - 1) // 2

    def _seen(self, key: Tensor, value: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor, Mask]:
        length = key.shape[2]
        near = torch.ones(length, length, dtype=torch.bool, device=key.device)
        near = near.triu(-self.before).tril(self.behind)[None, None]
        # a query of padding has to see something: a row without any key has no softmax
        own = torch.eye(length, dtype=torch.bool, device=key.device)
        return key, value, near if mask is None else (near & mask) | own


def look_at_fewer(model: Transformer, fewer: FewerKeys) -> Transformer:
    """The encoder itself, with every attention looking at fewer keys.

    UserError for a model with a decoder, whose attention is causal.
    """
    if model.config.decoder_layers:
        raise UserError(
            f"{fewer.kind} is for encoders: a decoder predicts from earlier positions alone, and "
            "this model has one"
        )
    matrices = Matrices(fewer)
    for layer in model.encoder:
        if fewer.kind is Fewer.WINDOW:
            layer.attention = Windowed(layer.attention, fewer.keys)
        else:
            layer.attention = matrices.into(layer.attention)
    return model


class Matrices:
    """Mixing matrices for one layer after another, the same ones where they are shared."""

    def __init__(self, fewer: FewerKeys) -> None:
        self.fewer = fewer
        self.shared = self._new() if fewer.sharing is Sharing.LAYERS else None

    def into(self, attention: Attention) -> Mixed:
        """The attention with the matrices of the next layer."""
        return Mixed(attention, *self._pair(attention.heads))

    def _pair(self, heads: int) -> tuple[Tensor, Tensor]:
        """Projections of the next layer's keys and values."""
        if self.shared is not None:
            return self.shared, self.shared
        own = (heads,) if self.fewer.sharing is Sharing.NOTHING else ()
        keys = self._new(*own)
        return keys, keys if self.fewer.sharing is Sharing.KEY_VALUE else self._new(*own)

    def _new(self, *heads: int) -> nn.Parameter:
        shape = (*heads, self.fewer.keys, self.fewer.length)
        if self.fewer.kind is not Fewer.LINFORMER:
            pooled = means(*shape[-2:]).expand(shape).clone()
            return nn.Parameter(pooled, requires_grad=False)
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
