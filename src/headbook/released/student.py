"""The network of a Firefox translation student: post-norm encoder, recurrent decoder.

The decoder has no self-attention: a simpler simple recurrent unit (Kim et al. 2019, "From Research
to Production and Back", section 3) stands in its place.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from headbook.models.attention import Attention, AttentionPath, KeyValues, MemoryMask
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


@dataclass
class DecoderState:
    """The decoder between two steps: each layer's cell and its keys and values of the source."""

    cells: list[Float[Tensor, "batch model"] | None]
    cross: list[KeyValues]
    length: int = 0

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Only the given rows of the batch, in their order."""
        self.cells = [None if cell is None else cell[rows] for cell in self.cells]
        for kept in self.cross:
            kept.select(rows)

    def lay_out(self) -> None:
        """Nothing: selecting rows has laid them out."""


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.first = nn.Linear(width, inner)
        self.second = nn.Linear(inner, width)

    def forward(self, states: Float[Tensor, "*batch model"]) -> Float[Tensor, "*batch model"]:
        return self.second(self.first(states).relu())


class Recurrence(nn.Module):
    """SSRU: f = σ(W_f x + b_f), c_t = f c_{t-1} + (1 − f) W x, output relu(c_t)."""

    def __init__(self, width: int):
        super().__init__()
        self.candidate = nn.Linear(width, width, bias=False)
        self.forget = nn.Linear(width, width)

    def forward(
        self,
        states: Float[Tensor, "batch time model"],
        cell: Float[Tensor, "batch model"] | None = None,
    ) -> tuple[Float[Tensor, "batch time model"], Float[Tensor, "batch model"]]:
        """Outputs, and the last cell for the next step; without a cell it starts from zero."""
        forget = self.forget(states).sigmoid()
        added = (1 - forget) * self.candidate(states)
        if cell is not None:
            first = added[:, :1] + forget[:, :1] * cell[:, None]
            added = torch.cat([first, added[:, 1:]], dim=1)
        cells = linear_recurrence(forget, added)
        return cells.relu(), cells[:, -1]


def linear_recurrence(
    decay: Float[Tensor, "batch time model"], added: Float[Tensor, "batch time model"]
) -> Float[Tensor, "batch time model"]:
    """c_t = decay_t c_{t-1} + added_t from c_0 = 0, for all t at once.

    Doubles the stretch that each position has summed (Hillis and Steele 1986), so that a sentence
    takes as many operations as its length has binary digits, forward and backward.
    """
    step, length = 1, added.shape[1]
    while step < length:
        earlier = functional.pad(added[:, :-step], (0, 0, step, 0))
        added = added + decay * earlier
        decay = decay * functional.pad(decay[:, :-step], (0, 0, step, 0))
        step *= 2
    return added


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each LN(x + f(x))."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.attention = _attention(shape)
        self.attention_norm = _norm(shape)
        self.feed_forward = FeedForward(shape.width, shape.encoder_inner)
        self.feed_forward_norm = _norm(shape)

    def forward(
        self, states: Float[Tensor, "batch source model"], mask: MemoryMask | None
    ) -> Float[Tensor, "batch source model"]:
        states = self.attention_norm(states + self.attention(states, states, mask))
        return self.feed_forward_norm(states + self.feed_forward(states))


class DecoderLayer(nn.Module):
    """Recurrence, cross-attention and feed-forward, each LN(x + f(x))."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.recurrence = Recurrence(shape.width)
        self.recurrence_norm = _norm(shape)
        self.cross = _attention(shape)
        self.cross_norm = _norm(shape)
        self.feed_forward = FeedForward(shape.width, shape.decoder_inner)
        self.feed_forward_norm = _norm(shape)

    def forward(
        self,
        states: Float[Tensor, "batch target model"],
        memory: Float[Tensor, "batch source model"],
        mask: MemoryMask | None,
        cell: Float[Tensor, "batch model"] | None = None,
        cache: KeyValues | None = None,
    ) -> tuple[Float[Tensor, "batch target model"], Float[Tensor, "batch model"]]:
        output, cell = self.recurrence(states, cell)
        states = self.recurrence_norm(states + output)
        states = self.cross_norm(states + self.cross(states, memory, mask, cache))
        return self.feed_forward_norm(states + self.feed_forward(states)), cell


def _attention(shape: Shape) -> Attention:
    return Attention(shape.width, shape.heads, 0.0, AttentionPath.AUTO)


def _norm(shape: Shape) -> nn.LayerNorm:
    return nn.LayerNorm(shape.width, EPSILON)


class Student(nn.Module):
    """A Capturable model: self-attention in the encoder, cross-attention in the decoder."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.source = nn.Embedding(shape.source_vocabulary, shape.width)
        self.target = (
            self.source if shape.shared else nn.Embedding(shape.target_vocabulary, shape.width)
        )
        self.encoder = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.decoder_layers))
        self.bias = nn.Parameter(torch.zeros(shape.target_vocabulary))

    def attentions(self) -> Iterator[tuple[Kind, int, Attention]]:
        """Every attention block with its kind and layer, from the input upward."""
        for layer, block in enumerate(self.encoder):
            yield Kind.ENCODER, layer, block.attention
        for layer, block in enumerate(self.decoder):
            yield Kind.CROSS, layer, block.cross

    def forward(self, batch: Batch) -> Float[Tensor, "batch position vocabulary"]:
        """Logits of every target token given those before it."""
        return self.logits(self.states(batch))

    def states(self, batch: Batch) -> Float[Tensor, "batch position model"]:
        """The decoder's output for the batch's own target."""
        memory, mask = self.encode(batch.source, batch.source_mask)
        return self.decode(batch.target_in, memory, mask)

    def encode(
        self, source: Int[Tensor, "batch source"], real: Bool[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source model"], MemoryMask | None]:
        """The encoder's output and the mask of its padding; None where nothing is padded."""
        mask = None if bool(real.all()) else real[:, None, None, :]
        return self.encoded_from(0, self.embedded_source(source), mask), mask

    def encoded_from(
        self, layer: int, states: Float[Tensor, "batch source model"], mask: MemoryMask | None
    ) -> Float[Tensor, "batch source model"]:
        """The encoder's output, from the input of a layer on, counted from 0."""
        for each in self.encoder[layer:]:
            states = each(states, mask)
        return states

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source model"],
        mask: MemoryMask | None,
        state: DecoderState | None = None,
    ) -> Float[Tensor, "batch target model"]:
        """The decoder's output; with a state, `target` holds only the newest positions.

        Whatever id stands first in a sentence is read as the zero vector: there is no start token.
        """
        states = self.embedded_target(target, state.length if state else 0)
        for index, layer in enumerate(self.decoder):
            before = (state.cells[index], state.cross[index]) if state else (None, None)
            states, cell = layer(states, memory, mask, *before)
            if state:
                state.cells[index] = cell
        if state:
            state.length += target.shape[1]
        return states

    def logits(self, states: Float[Tensor, "*batch model"]) -> Float[Tensor, "*batch vocabulary"]:
        """Scores of every target piece."""
        return functional.linear(states, self.target.weight, self.bias)

    def predictor(self, candidates: Int[Tensor, " candidate"]) -> Callable[[Tensor], Tensor]:
        """`logits` among the candidates, whose weights are gathered once for many calls."""
        weight, bias = self.target.weight[candidates], self.bias[candidates]
        return lambda states: functional.linear(states, weight, bias)

    def empty_cache(self) -> DecoderState:
        """The decoder's state before its first step."""
        layers = range(len(self.decoder))
        return DecoderState([None for _ in layers], [KeyValues() for _ in layers])

    def embedded_source(self, source: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token _"]:
        """Source pieces as the first encoder layer reads them."""
        return self._placed(self.source(source), 0)

    def embedded_target(
        self, target: Int[Tensor, "batch token"], first: int = 0
    ) -> Float[Tensor, "batch token _"]:
        """Target pieces, of which the first stands at position `first`, as the decoder reads them.

        Whatever id stands at position 0 is read as the zero vector: there is no start token.
        """
        embedded = self.target(target)
        if not first:
            embedded = torch.cat([torch.zeros_like(embedded[:, :1]), embedded[:, 1:]], dim=1)
        return self._placed(embedded, first)

    def _placed(
        self, embedded: Float[Tensor, "batch token model"], first: int
    ) -> Float[Tensor, "batch token model"]:
        """Embeddings scaled by √width, plus the waves of their positions, counted from `first`."""
        at = torch.arange(first, first + embedded.shape[1], device=embedded.device)
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
