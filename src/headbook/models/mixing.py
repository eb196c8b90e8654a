"""Replacements of full self-attention, by name."""

from dataclasses import dataclass
from enum import StrEnum

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headbook.models.attention import Attention, AttentionPath, Mask, Reprojected
from headbook.models.fast_weights import elu_plus_one
from headbook.models.fewer_keys import Mixed, mixture
from headbook.models.sparse import Pattern, Sparse


class Mixing(StrEnum):
    """Method by which tokens of a text exchange information."""

    FULL = "full"
    FUSED = "full, fused"  # the same in one kernel that never holds the weights
    LINEAR = "linear"
    LINFORMER = "Linformer"
    WINDOW = "window"
    DILATED = "dilated window"
    GLOBAL = "window + global"
    RANDOM = "window + random"
    BIGBIRD = "BigBird"
    LSTM = "LSTM"


@dataclass(frozen=True)
class Sizes:
    """Tokens of a window (both halves), tokens of a block, global tokens, random blocks per block.

    Dilated: `step` tokens apart. Linformer: `keys` for texts of at most `length` tokens.
    """

    length: int
    window: int = 64
    block: int = 32
    tokens: int = 4
    drawn: int = 2
    step: int = 4
    keys: int = 128


def mix(kind: Mixing, attention: Attention, sizes: Sizes) -> nn.Module:
    """A module with the attention's contract and, where it has them, its projections."""
    half = sizes.window // 2
    match kind:
        case Mixing.FULL | Mixing.FUSED:
            fused = kind is Mixing.FUSED
            attention.path = AttentionPath.FUSED if fused else AttentionPath.EXPLICIT
            return attention
        case Mixing.LINEAR:
            return Linear(attention)
        case Mixing.LINFORMER:
            one = mixture(min(sizes.keys, sizes.length), sizes.length)
            return Mixed(attention, one, one)
        case Mixing.WINDOW:
            return Sparse(attention, Pattern(half, window=True))
        case Mixing.DILATED:
            return Sparse(attention, Pattern(half, window=True, step=sizes.step))
        case Mixing.GLOBAL:
            return Sparse(attention, Pattern(half, window=True, tokens=sizes.tokens))
        case Mixing.RANDOM:
            return Sparse(attention, Pattern(sizes.block, drawn=sizes.drawn))
        case Mixing.BIGBIRD:
            few = {"tokens": sizes.tokens, "drawn": sizes.drawn}
            return Sparse(attention, Pattern(sizes.block, **few))
        case Mixing.LSTM:
            return Recurrent(attention.query.in_features)


class Linear(Reprojected):
    """φ(Q) (φ(K)ᵀ V) over φ(Q) Σ φ(k), φ = ELU + 1 (Katharopoulos et al. 2020, equation 5).

    Not causal. Weights cannot be recorded or edited: they are never computed.
    """

    def _context(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        query, key = elu_plus_one(query), elu_plus_one(key)
        if mask is not None:
            key = key * mask.mT
        total = query @ key.sum(2)[..., None]
        return query @ (key.mT @ value) / total


class Recurrent(nn.Module):
    """An LSTM in each direction in the place of an attention, together as wide as the states."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, queries: Tensor, memory: Tensor, mask: Mask | None = None) -> Tensor:
        """States at every token; `memory` is not looked at. Padding stands on the right."""
        if mask is None:
            return self.lstm(queries)[0]
        lengths = mask[:, 0, 0].sum(-1).expand(len(queries)).cpu()
        packed = pack_padded_sequence(queries, lengths, True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], True, total_length=queries.shape[1])[0]
