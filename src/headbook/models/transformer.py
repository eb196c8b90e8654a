"""The transformer: encoder-decoder, encoder-only or decoder-only by its two layer counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from headbook.models.attention import Attention, AttentionPath, KeyValues, Mask, MemoryMask
from headbook.models.dropout import Dropout
from headbook.text.batches import PAD, Batch
from headbook.types import Kind, UserError


class NormPlacement(StrEnum):
    """Place of layer normalisation. The paper's code is pre-norm with a final norm."""

    PRE = "pre"  # x + f(norm(x)), and a norm after the last layer
    POST = "post"  # norm(x + f(x))


@dataclass(frozen=True)
class HeadCounts:
    """Number of heads of each block, by kind and layer, where surgery left them unequal."""

    encoder: tuple[int, ...]
    decoder: tuple[int, ...]
    cross: tuple[int, ...]

    def of(self, kind: Kind, layer: int) -> int:
        counts: tuple[int, ...] = getattr(self, kind)
        return counts[layer]


@dataclass(frozen=True)
class TransformerConfig:
    """Shape and options; the defaults are the options of Voita et al. 2019's code, appendix B."""

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 6
    decoder_layers: int = 6
    width: int = 512
    feed_forward: int = 2048
    heads: int = 8
    dropout: float = 0.1
    norm: NormPlacement = NormPlacement.PRE
    path: AttentionPath = AttentionPath.AUTO
    head_counts: HeadCounts | None = None  # `heads` everywhere where None; their width stays
    key_value_heads: int | None = None  # of decoder and cross-attention; as many as heads if None

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(f"width {self.width} is not a multiple of heads {self.heads}")
        shared = self.heads if self.key_value_heads is None else self.key_value_heads
        if shared < 1 or self.heads % shared:
            raise UserError(
                f"{self.heads} heads cannot share {shared} key-value heads: give a divisor"
            )
        if shared != self.heads and self.head_counts is not None:
            raise UserError("heads that share keys and values cannot be unequal in number as well")


@dataclass
class DecoderCache:
    """Keys and values of every decoder layer, and how many positions they hold."""

    own: list[KeyValues]
    cross: list[KeyValues]
    length: int = 0

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps the given rows of the batch in every layer."""
        for kept in (*self.own, *self.cross):
            kept.select(rows)

    def reorder(self, rows: Int[Tensor, " chosen"]) -> None:
        """The same where each row goes on from one of its own sentence: the source stays."""
        for kept in self.own:
            kept.select(rows)

    def lay_out(self) -> None:
        """Lays the source's keys and values out once: a product would copy them at every step."""
        for kept in self.cross:
            if kept.keys is not None:
                kept.keys, kept.values = kept.keys.contiguous(), kept.values.contiguous()


def sinusoids(length: int, width: int) -> Float[Tensor, "length width"]:
    """Position signal: the sines of all frequencies, then the cosines (Vaswani et al., 3.5)."""
    frequencies = 10_000 ** -(torch.arange(width // 2) / max(width // 2 - 1, 1))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class Embedding(nn.Module):
    """Token vectors times √width, plus a learned bias and the position signal.

    PAD is the zero vector before positions are added, so that a PAD at the front is the decoder's
    start token of the paper's code.
    """

    def __init__(self, vocabulary: int, width: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("positions", sinusoids(256, width), persistent=False)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)

    def forward(self, ids: Int[Tensor, "batch token"], first: int = 0) -> Tensor:
        """Vectors of `ids`, the first of which stands at position `first`."""
        end, width = first + ids.shape[1], self.bias.shape[0]
        if end > len(self.positions):
            self.positions = sinusoids(2 * end, width).to(self.bias)
        known = (ids != PAD).unsqueeze(-1)
        return (self.tokens(ids) * width**0.5 + self.bias) * known + self.positions[first:end]


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, with dropout after the ReLU."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.inner = nn.Linear(config.width, config.feed_forward)
        self.outer = nn.Linear(config.feed_forward, config.width)
        self.dropout = Dropout(config.dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outer(self.dropout(self.inner(inputs).relu()))


class Residual(nn.Module):
    """Wraps one sublayer: layer norm before it or after the sum, dropout on what it adds."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.placement = config.norm

    def before(self, inputs: Tensor) -> Tensor:
        return self.norm(inputs) if self.placement is NormPlacement.PRE else inputs

    def after(self, inputs: Tensor, added: Tensor) -> Tensor:
        total = inputs + self.dropout(added)
        return total if self.placement is NormPlacement.PRE else self.norm(total)


def _attention(config: TransformerConfig, kind: Kind, layer: int) -> Attention:
    heads = config.head_counts.of(kind, layer) if config.head_counts else config.heads
    head_width = config.width // config.heads
    # Ainslie et al. 2023 leave the encoder's alone: it is not what decoding waits for.
    shared = None if kind is Kind.ENCODER else config.key_value_heads
    return Attention(config.width, heads, config.dropout, config.path, head_width, shared)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig, layer: int):
        super().__init__()
        self.attention = _attention(config, Kind.ENCODER, layer)
        self.around_attention = Residual(config)
        self.feed_forward, self.around_feed_forward = FeedForward(config), Residual(config)

    def forward(self, states: Tensor, mask: Mask | None) -> Tensor:
        normed = self.around_attention.before(states)
        states = self.around_attention.after(states, self.attention(normed, normed, mask))
        normed = self.around_feed_forward.before(states)
        return self.around_feed_forward.after(states, self.feed_forward(normed))


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention where there is an encoder, then feed-forward."""

    def __init__(self, config: TransformerConfig, layer: int):
        super().__init__()
        self.attention = _attention(config, Kind.DECODER, layer)
        self.around_attention = Residual(config)
        if config.encoder_layers:
            self.cross, self.around_cross = _attention(config, Kind.CROSS, layer), Residual(config)
        self.feed_forward, self.around_feed_forward = FeedForward(config), Residual(config)

    def forward(
        self,
        states: Tensor,
        mask: Mask | None,
        memory: Tensor | None,
        memory_mask: MemoryMask | None,
        own: KeyValues | None = None,
        cross: KeyValues | None = None,
    ) -> Tensor:
        normed = self.around_attention.before(states)
        states = self.around_attention.after(states, self.attention(normed, normed, mask, own))
        if memory is not None:
            normed = self.around_cross.before(states)
            attended = self.cross(normed, memory, memory_mask, cross)
            states = self.around_cross.after(states, attended)
        normed = self.around_feed_forward.before(states)
        return self.around_feed_forward.after(states, self.feed_forward(normed))


class Transformer(nn.Module):
    """Transformer of Vaswani et al. 2017 with the options of Voita et al. 2019's code.

    Embeddings are not shared and the output projection is not tied and has no bias.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        if config.encoder_layers:
            self.source = Embedding(config.source_vocabulary, config.width)
        self.encoder = nn.ModuleList(
            EncoderLayer(config, layer) for layer in range(config.encoder_layers)
        )
        if config.decoder_layers:
            self.target = Embedding(config.target_vocabulary, config.width)
        self.decoder = nn.ModuleList(
            DecoderLayer(config, layer) for layer in range(config.decoder_layers)
        )
        self.encoder_norm = _final_norm(config, config.encoder_layers)
        self.decoder_norm = _final_norm(config, config.decoder_layers)
        predicted = config.target_vocabulary if config.decoder_layers else config.source_vocabulary
        self.logits = nn.Linear(config.width, predicted, bias=False)
        self.apply(glorot)

    def attentions(self) -> Iterator[tuple[Kind, int, Attention]]:
        """Every attention block with its kind and layer, from the input upward."""
        for layer, block in enumerate(self.encoder):
            yield Kind.ENCODER, layer, block.attention
        for layer, block in enumerate(self.decoder):
            yield Kind.DECODER, layer, block.attention
            if self.config.encoder_layers:
                yield Kind.CROSS, layer, block.cross

    def forward(self, batch: Batch) -> Float[Tensor, "batch position vocabulary"]:
        """Logits of every target token given those before it; of source tokens, encoder-only."""
        memory, memory_mask = (
            self.encode(batch.source) if self.config.encoder_layers else (None, None)
        )
        if not self.config.decoder_layers:
            return self.logits(memory)
        return self.logits(self.decode(batch.target_in, memory, memory_mask))

    def encode(
        self, source: Int[Tensor, "batch source"]
    ) -> tuple[Float[Tensor, "batch source model"], MemoryMask | None]:
        """The encoder's output and the mask of its padding; None where nothing is padded."""
        real = source != PAD
        # A mask costs a pass over the scores in every layer, and exact-length buckets need none.
        mask = None if bool(real.all()) else real[:, None, None, :]
        return self.encoded_from(0, self.embedded_source(source), mask), mask

    def embedded_source(self, source: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token _"]:
        """Source tokens as the first encoder layer reads them."""
        return self.source(source)

    def encoded_from(
        self, layer: int, states: Float[Tensor, "batch source model"], mask: MemoryMask | None
    ) -> Float[Tensor, "batch source model"]:
        """The encoder's output, from the input of a layer on, counted from 0."""
        for each in self.encoder[layer:]:
            states = each(states, mask)
        return self.encoder_norm(states)

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source model"] | None,
        memory_mask: MemoryMask | None,
        cache: DecoderCache | None = None,
    ) -> Float[Tensor, "batch target model"]:
        """The decoder's output. With a cache, `target` holds only the newest positions."""
        first, new = (cache.length if cache else 0), target.shape[1]
        # Padding is on the right, so the causal mask already hides it from every real query.
        mask = self._seen(first, new, target.device)[None, None] if new > 1 else None
        states = self.target(target, first)
        for index, layer in enumerate(self.decoder):
            kept = (cache.own[index], cache.cross[index]) if cache else (None, None)
            states = layer(states, mask, memory, memory_mask, *kept)
        if cache:
            cache.length += new
        return self.decoder_norm(states)

    def _seen(self, first: int, new: int, device: torch.device) -> Bool[Tensor, "new all"]:
        """True where a new position may look: at itself and all before it."""
        return torch.ones(new, first + new, dtype=torch.bool, device=device).tril(first)

    def predictor(self, candidates: Int[Tensor, " candidate"]) -> Callable[[Tensor], Tensor]:
        """`logits` of these target tokens alone, whose weights are gathered once for many calls."""
        weight = self.logits.weight[candidates]
        return lambda states: functional.linear(states, weight)

    def empty_cache(self) -> DecoderCache:
        layers = range(self.config.decoder_layers)
        return DecoderCache([KeyValues() for _ in layers], [KeyValues() for _ in layers])


def _final_norm(config: TransformerConfig, layers: int) -> nn.Module:
    if layers and config.norm is NormPlacement.PRE:
        return nn.LayerNorm(config.width)
    return nn.Identity()


def glorot(module: nn.Module) -> None:
    """Starting weights of a linear layer; any other module is left as it is."""
    if isinstance(module, nn.Linear):
        if module.weight.numel():
            nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
