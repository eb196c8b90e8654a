"""The network of a Firefox translation student: post-norm encoder, recurrent decoder.

The decoder has no self-attention: a simpler simple recurrent unit (Kim et al. 2019, "From Research
to Production and Back", section 3) stands in its place.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from headbook.models.attention import Attention, KeyValues, MemoryMask
from headbook.models.transformer import (
    DecoderCache,
    FeedForward,
    NormPlacement,
    Transformer,
    TransformerConfig,
)
from headbook.text.batches import Batch
from headbook.types import Kind

EOS = 0  # ends source and target; nothing starts them
EPSILON = 1e-9  # of the layer norms
PERIODS = 10_000  # the longest wave of the positions has this many times the shortest's length


@dataclass(frozen=True)
class Shape:
    """Sizes of a student."""

    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    encoder_inner: int
    decoder_inner: int
    source_vocabulary: int
    target_vocabulary: int
    shared: bool  # one embedding matrix for source, target and prediction


class Embedding(nn.Module):
    """Pieces scaled by √width, plus the waves of their positions."""

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)

    def forward(self, ids: Int[Tensor, "batch token"], first: int | None = None) -> Tensor:
        """Source pieces; or, from position `first` on, target pieces, where whatever id stands at
        0 is read as the zero vector: there is no start token."""
        embedded = self.tokens(ids)
        if first == 0:
            embedded = torch.cat([torch.zeros_like(embedded[:, :1]), embedded[:, 1:]], dim=1)
        at = torch.arange(ids.shape[1], device=ids.device) + (first or 0)
        waves = position_waves(at.to(embedded.dtype), embedded.shape[2])
        return embedded * math.sqrt(embedded.shape[2]) + waves


def position_waves(at: Float[Tensor, " token"], width: int) -> Float[Tensor, "token model"]:
    """Sines in the first half, cosines in the second, as Marian has them.

    The paper (Vaswani et al. 2017, section 3.5) alternates them and divides by width / 2.
    """
    half = width // 2
    steps = torch.arange(half, device=at.device, dtype=at.dtype)
    angles = at[:, None] * torch.exp(steps * (-math.log(PERIODS) / max(half - 1, 1)))
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@dataclass
class Cell(KeyValues):
    """What a recurrence keeps between decoding steps."""

    state: Float[Tensor, "batch model"] | None = None

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Only the given rows of the batch, in their order."""
        self.state = None if self.state is None else self.state[rows]


class Recurrence(nn.Module):
    """SSRU: f = σ(W_f x + b_f), c_t = f c_{t-1} + (1 − f) W x, output relu(c_t)."""

    def __init__(self, width: int):
        super().__init__()
        self.candidate = nn.Linear(width, width, bias=False)
        self.forget = nn.Linear(width, width)

    def forward(
        self,
        states: Float[Tensor, "batch time model"],
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        cell: Cell | None = None,
    ) -> Float[Tensor, "batch time model"]:
        """In place of attention to earlier positions: memory and mask are not read. Without a cell,
        or with one that is new, it starts from zero."""
        forget = self.forget(states).sigmoid()
        added = (1 - forget) * self.candidate(states)
        new = cell is None or cell.state is None
        state, cells = torch.zeros_like(added[:, 0]) if new else cell.state, []
        for kept, each in zip(forget.unbind(1), added.unbind(1), strict=True):
            state = kept * state + each
            cells.append(state)
        if cell is not None:
            cell.state = state
        return torch.stack(cells, 1).relu()


class Student(Transformer):
    """A transformer with self-attention in the encoder and cross-attention in the decoder alone."""

    def __init__(self, shape: Shape) -> None:
        config = TransformerConfig(
            shape.source_vocabulary,
            shape.target_vocabulary,
            shape.encoder_layers,
            shape.decoder_layers,
            shape.width,
            shape.encoder_inner,
            shape.heads,
            dropout=0.0,
            norm=NormPlacement.POST,
        )
        super().__init__(config)
        self.shape = shape
        self.source = self.target = Embedding(shape.source_vocabulary, shape.width)
        if not shape.shared:
            self.target = Embedding(shape.target_vocabulary, shape.width)
        for layer in self.decoder:
            layer.attention = Recurrence(shape.width)
            layer.feed_forward = FeedForward(replace(config, feed_forward=shape.decoder_inner))
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = EPSILON
        del self.logits  # they are the target's embeddings
        self.bias = nn.Parameter(torch.zeros(shape.target_vocabulary))

    def attentions(self) -> Iterator[tuple[Kind, int, Attention]]:
        """Every attention block with its kind and layer, from the input upward."""
        yield from (each for each in super().attentions() if each[0] is not Kind.DECODER)

    def forward(self, batch: Batch) -> Float[Tensor, "batch position vocabulary"]:
        """Logits of every target token given those before it."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Float[Tensor, "batch position model"]:
        """The decoder's output for the batch's own target."""
        return self.decode(batch.target_in, *self.encode(batch.source, batch.source_mask))

    def encode(
        self, source: Int[Tensor, "batch source"], real: Bool[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source model"], MemoryMask | None]:
        """The encoder's output and the mask of its padding; None where nothing is padded."""
        mask = None if bool(real.all()) else real[:, None, None, :]
        return self.encoded_from(0, self.embedded_source(source), mask), mask

    def logits(self, states: Float[Tensor, "*batch model"]) -> Float[Tensor, "*batch vocabulary"]:
        """Scores of every target piece."""
        return functional.linear(states, self.target.tokens.weight, self.bias)

    def predictor(self, candidates: Int[Tensor, " candidate"]) -> Callable[[Tensor], Tensor]:
        """`logits` among the candidates, whose weights are gathered once for many calls."""
        weight, bias = self.target.tokens.weight[candidates], self.bias[candidates]
        return lambda states: functional.linear(states, weight, bias)

    def empty_cache(self) -> DecoderCache:
        """What the decoder keeps, before its first step."""
        layers = range(self.config.decoder_layers)
        return DecoderCache([Cell() for _ in layers], [KeyValues() for _ in layers])
