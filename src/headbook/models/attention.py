"""Multi-head attention, with an explicit path that shows its weights and a fused one."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from headbook.models.capture import Point, Recorder
from headbook.models.dropout import Dropout
from headbook.models.edits import Edit

Mask = Bool[Tensor, "#batch 1 #query seen"]
"""True where a query may look at a key; with a cache, more keys are seen than are new."""

MemoryMask = Bool[Tensor, "#batch 1 1 source"]
"""True at real tokens of the source; a type of its own, as its keys are not the target's."""


class AttentionPath(StrEnum):
    """Computation of weights that nobody records; results agree, speed does not."""

    EXPLICIT = "explicit"  # two matrix products around a softmax
    FUSED = "fused"  # one kernel that never holds the weights
    AUTO = "auto"  # fused on a GPU; on a CPU explicit, which wins for short sentences


@dataclass
class KeyValues:
    """The keys and values of one attention block, kept between decoding steps."""

    keys: Float[Tensor, "batch head key dim"] | None = None
    values: Float[Tensor, "batch head key dim"] | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Appends new positions and returns everything so far."""
        if self.keys is not None:
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Int[Tensor, " chosen"]) -> None:
        """Keeps the given rows of the batch, in their order."""
        if self.keys is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]


class Attention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 … head_h) W_O (Vaswani et al. 2017, section 3.2.2)."""

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float,
        path: AttentionPath,
        head_width: int | None = None,  # width / heads, unless heads were taken out
        key_value_heads: int | None = None,  # as many as heads, unless these share them in groups
    ) -> None:
        super().__init__()
        self.heads, self.path = heads, path
        self.key_value_heads = heads if key_value_heads is None else key_value_heads
        inner = width if head_width is None else heads * head_width
        shared = inner if key_value_heads is None else inner // heads * key_value_heads
        self.query = _linear(width, inner)
        self.key = _linear(width, shared)
        self.value = _linear(width, shared)
        self.output = _linear(inner, width)
        self.dropout = Dropout(dropout)
        self.gate: nn.Module | None = None  # gives one multiplier per head, see gates.py
        self.drop_head: nn.Module | None = None  # leaves heads out in training, see drop_head.py
        self.record: Recorder | None = None
        self.edits: Mapping[Point, Edit] = {}  # replace weights or contexts, see edits.py

    @property
    def output_weight(self) -> Float[Tensor, "model inner"]:
        """W_O, see `Block`."""
        return self.output.weight

    def forward(
        self,
        queries: Float[Tensor, "batch query model"],
        memory: Float[Tensor, "batch key model"],
        mask: Mask | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "batch query added"]:
        """Attends from `queries` to `memory`; the result is as wide as W_O's output.

        With a cache, self-attention appends this step's keys and values to it, and cross-attention
        computes them once: the second time `memory` is not looked at. A block whose heads were all
        taken out adds its output bias and looks at nothing.
        """
        if not self.heads:
            return self.output.bias.expand_as(queries)
        query = self._queries(queries)
        key, value = map(self._spread, self._keys_and_values(queries, memory, cache))
        context = self._bound(self._context(query, key, value, mask), queries)
        if self.drop_head is not None:
            context = self.drop_head(context)
        if self.gate is not None:
            context = context * self.gate()[..., None, None]
        output = self.output(rearrange(context, "batch head query dim -> batch query (head dim)"))
        if self.record is not None:
            self.record(Point.OUTPUT, output)
        return output

    def _keys_and_values(
        self, queries: Tensor, memory: Tensor, cache: KeyValues | None
    ) -> tuple[Tensor, Tensor]:
        if cache is not None and cache.keys is not None and memory is not queries:
            return cache.keys, cache.values
        key, value = self._project(memory)
        return (key, value) if cache is None else cache.extend(key, value)

    def _queries(self, states: Tensor) -> Tensor:
        """[batch head query dim]."""
        return split(self.query(states), self.heads)

    def _project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values before they are shared out, [batch group key dim] each."""
        key, value = (
            split(linear(memory), self.key_value_heads) for linear in (self.key, self.value)
        )
        return key, value

    def _spread(self, shared: Tensor) -> Tensor:
        """Keys or values as every head sees them: the heads of a group are neighbours.

        These are recorded, [batch head key dim], shared or not.
        """
        if self.key_value_heads == self.heads:
            return shared
        return shared.repeat_interleave(self.heads // self.key_value_heads, dim=1)

    def _context(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        """Context of every head, [batch head query dim]. Kinds without a full matrix override it.

        Recorded or edited weights are there on the explicit path alone.
        """
        key, value, mask = self._seen(key, value, mask)
        if self.record is None and not self.edits and self._fused(query):
            rate = self.dropout.rate if self.training else 0.0
            return functional.scaled_dot_product_attention(query, key, value, mask, rate)
        return self._explicit(query, key, value, mask)

    def _seen(
        self, key: Tensor, value: Tensor, mask: Mask | None
    ) -> tuple[Tensor, Tensor, Mask | None]:
        """Keys and values that queries look at: all. Kinds of attention to fewer override it."""
        return key, value, mask

    def _bound(
        self, context: Float[Tensor, "batch head query dim"], queries: Tensor
    ) -> Float[Tensor, "batch head query dim"]:
        """Output of each head: its context. Kinds of attention with roles override it."""
        return context

    def _fused(self, query: Tensor) -> bool:
        if self.path is AttentionPath.AUTO:
            return query.device.type != "cpu"
        return self.path is AttentionPath.FUSED

    def _explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        scores = self._scores(query, key, mask)
        weights = scores.softmax(dim=-1)
        if Point.WEIGHTS in self.edits:
            weights = self.edits[Point.WEIGHTS](weights)
        # The weights are recorded before dropout: after it they are not what the head computed.
        context = self.dropout(weights) @ value
        if Point.CONTEXT in self.edits:
            context = self.edits[Point.CONTEXT](context)
        if self.record is not None:
            computed = (query, key, value, scores, weights, context)
            for point, tensor in zip(list(Point)[: len(computed)], computed, strict=True):
                self.record(point, tensor)
        return context

    def _scores(self, query: Tensor, key: Tensor, mask: Mask | None) -> Tensor:
        """q k / √(width of a head), [batch head query key]; -inf where a query may not look."""
        # Scaling the queries costs less than scaling the scores, which are longer than they are.
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        if mask is None:
            return scores
        # Adding -inf, whose gradient is free; filling would pass over the scores once more.
        return scores + scores.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)


class Reprojected(Attention):
    """The heads of another attention, for kinds that look or read in their own way.

    Its projections are shared, not copied.
    """

    def __init__(self, other: Attention) -> None:
        super().__init__(1, other.heads, other.dropout.rate, other.path, 0)
        self.key_value_heads = other.key_value_heads
        self.query, self.key = other.query, other.key
        self.value, self.output = other.value, other.output


def split(
    projected: Float[Tensor, "batch token inner"], heads: int
) -> Float[Tensor, "batch head token dim"]:
    """Projected states apart by head."""
    return rearrange(projected, "batch token (head dim) -> batch head token dim", head=heads)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer; one without elements is made without torch's warning that it has none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")
        return nn.Linear(inputs, outputs)
