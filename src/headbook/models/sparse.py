"""Attention to few of the keys, in blocks: time and memory grow with the length, not its square.

Patterns of Longformer (Beltagy, Peters and Cohan 2020) and BigBird (Zaheer et al. 2020). Keys are
gathered block by block, so that no matrix of all queries and keys is ever there.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from headbook.models.attention import Attention, Mask, Reprojected
from headbook.types import UserError

NONE = -1
"""No block."""


class Pattern(ABC):
    """Keys that a query sees: some blocks of `size`, and the first `tokens` of the text.

    The latter are global: every query sees them, and they see every key. With `step` above one, a
    block holds positions so far apart.
    """

    size: int
    step: int
    tokens: int

    @abstractmethod
    def blocks(self, count: int) -> Int[Tensor, "block seen"]:
        """The blocks that each of `count` blocks sees, itself first; NONE where there are fewer."""

    def near(self, query: Int[Tensor, "block query 1"], key: Int[Tensor, "block 1 key"]) -> Tensor:
        """Whether a query sees a key of these blocks, by positions."""
        return torch.ones_like(query == key)


@dataclass(frozen=True)
class Window(Pattern):
    """Half of `window` tokens on either side, each `step` apart (Longformer, section 3.1).

    The query's own token is seen besides. `tokens` are global. Causal: without the right half.
    UserError for a window without two halves, and for global tokens where it is causal.
    """

    window: int
    step: int = 1
    tokens: int = 0
    causal: bool = False

    def __post_init__(self) -> None:
        if self.window < 2 or self.window % 2:
            raise UserError(
                f"a window of {self.window} tokens has no two halves: give an even number from 2 on"
            )
        if self.step < 1 or self.tokens < 0:
            raise UserError(
                f"{self.step} tokens apart and {self.tokens} global tokens: give 1 and 0 or more"
            )
        if self.causal and self.tokens:
            raise UserError("global tokens see later ones: a causal window has none of them")

    @property
    def size(self) -> int:
        return self.window // 2

    def blocks(self, count: int) -> Int[Tensor, "block seen"]:
        return _neighbours(count)[:, : 2 if self.causal else 3]

    def near(self, query: Int[Tensor, "block query 1"], key: Int[Tensor, "block 1 key"]) -> Tensor:
        apart = query - key
        within = apart.abs() <= self.size * self.step
        return within & (apart >= 0) if self.causal else within


@dataclass(frozen=True)
class BigBird(Pattern):
    """A query's block and both beside it, `drawn` blocks at random, and the first `tokens`.

    Blocks are drawn by `seed` alone and are the same for all heads; they stand in a circle, of
    which those next to the query's are left out. UserError for sizes that are none.
    """

    size: int
    tokens: int
    drawn: int
    seed: int = 0
    step: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.size < 1 or self.tokens < 0 or self.drawn < 0:
            raise UserError(
                f"blocks of {self.size}, {self.tokens} global tokens and {self.drawn} random "
                "blocks: give 1, 0 and 0 or more"
            )

    def blocks(self, count: int) -> Int[Tensor, "block seen"]:
        far = max(0, count - 3)
        drawn = min(self.drawn, far)
        generator = torch.Generator().manual_seed(self.seed)
        # one from each of so many equal parts of the circle, so that none is drawn twice
        part = (torch.arange(drawn) + torch.rand(count, drawn, generator=generator)) / max(drawn, 1)
        others = (torch.arange(count)[:, None] + 2 + (part * far).long().clamp(max=far - 1)) % count
        return torch.cat([_neighbours(count), others], 1)


def _neighbours(count: int) -> Int[Tensor, "block 3"]:
    """The block itself and those to its left and right, NONE beyond the ends."""
    own = torch.arange(count)[:, None]
    return torch.cat([own, own - 1, torch.where(own + 1 < count, own + 1, NONE)], 1)


@dataclass(frozen=True)
class Layout:
    """Blocks of a text: whose keys each sees, and which of these each of its queries does.

    Positions run beyond the text's end where it does not fill its blocks; a query there sees
    itself, as a row without any key has no softmax. Global keys are not among `seen`.
    """

    positions: Int[Tensor, "block query"]
    gathered: Int[Tensor, "block seen"]
    keys: Int[Tensor, "block key"]
    seen: Bool[Tensor, "block query key"]


def lay_out(pattern: Pattern, length: int) -> Layout:
    """The blocks of a text of this length."""
    stride = pattern.size * pattern.step
    count = -(-length // stride)
    places = torch.arange(count * stride)
    positions = rearrange(places, "(block query step) -> (step block) query", step=pattern.step,
                          query=pattern.size)  # fmt: skip
    own = pattern.blocks(count)
    offsets = count * torch.arange(pattern.step)[:, None, None]
    gathered = torch.where(own == NONE, NONE, own + offsets).flatten(0, 1)
    keys = positions[gathered.clamp(min=0)].flatten(1)
    there = (gathered != NONE).repeat_interleave(pattern.size, 1)
    there &= (keys < length) & (keys >= pattern.tokens)
    seen = pattern.near(positions[:, :, None], keys[:, None]) & there[:, None]
    return Layout(positions, gathered.clamp(min=0), keys, seen)


def pairs(pattern: Pattern, length: int) -> Bool[Tensor, "query key"]:
    """Keys that each query sees, as a full matrix: to look at, and for recording."""
    layout = lay_out(pattern, length)
    whole = torch.zeros(layout.positions.numel(), layout.positions.numel(), dtype=torch.bool)
    block, query, key = layout.seen.nonzero(as_tuple=True)
    whole[layout.positions[block, query], layout.keys[block, key]] = True
    whole[: pattern.tokens] = whole[:, : pattern.tokens] = True
    return whole[:length, :length]


class Sparse(Reprojected):
    """Self-attention to the keys of a pattern, with another attention's projections.

    Global tokens use the same projections as all others (Longformer has a second set). Weights that
    somebody records or edits are the full matrix, so these take its memory. UserError where
    queries and keys are not of one text, and for a mask that depends on the query.
    """

    def __init__(self, attention: Attention, pattern: Pattern) -> None:
        super().__init__(attention)
        self.pattern = pattern

    def _context(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        length = query.shape[2]
        if key.shape[2] != length:
            raise UserError(
                f"{length} queries and {key.shape[2]} keys: a pattern is for self-attention to "
                "one whole text"
            )
        if mask is not None and mask.shape[2] > 1:
            raise UserError(
                "a pattern takes the mask of padding alone: for earlier positions only, use a "
                "causal Window"
            )
        if self.record is not None or self.edits:
            own = torch.eye(length, dtype=torch.bool)
            seen = (pairs(self.pattern, length) | own).to(query.device)[None, None]
            return super()._context(query, key, value, seen if mask is None else _real(seen, mask))
        return self._blocked(query * query.shape[-1] ** -0.5, key, value, mask)

    def _blocked(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        """As the full matrix has it; queries are scaled already."""
        length, first = query.shape[2], self.pattern.tokens
        layout = lay_out(self.pattern, length)
        gathered = layout.gathered.to(query.device)
        queries, keys, values = (self._in_blocks(each) for each in (query, key, value))
        keys, values = _gather(keys, gathered), _gather(values, gathered)
        seen = self._seen_in_blocks(layout, mask, length).to(query.device)
        scores = (queries @ keys.mT).masked_fill_(~seen, -torch.inf)
        if not first:
            return self._in_order(self.dropout(scores.softmax(-1)) @ values, length)
        everywhere = queries @ key[:, :, None, :first].mT
        if mask is not None:
            everywhere = everywhere.masked_fill(~mask[..., None, :first], -torch.inf)
        weights = self.dropout(torch.cat([scores, everywhere], -1).softmax(-1))
        near, far = weights.split([scores.shape[-1], everywhere.shape[-1]], -1)
        context = self._in_order(near @ values + far @ value[:, :, None, :first], length)
        rows = query[:, :, :first] @ key.mT
        if mask is not None:
            rows = rows.masked_fill(~mask, -torch.inf)
        seeing_all = self.dropout(rows.softmax(-1)) @ value
        return torch.cat([seeing_all, context[:, :, first:]], 2)

    def _in_blocks(self, states: Tensor) -> Float[Tensor, "batch head block token dim"]:
        stride = self.pattern.size * self.pattern.step
        filled = pad(states, (0, 0, 0, -states.shape[2] % stride))
        return rearrange(filled, "batch head (block token step) dim -> "
                         "batch head (step block) token dim", token=self.pattern.size,
                         step=self.pattern.step)  # fmt: skip

    def _in_order(self, blocks: Tensor, length: int) -> Float[Tensor, "batch head token dim"]:
        order = "batch head (step block) token dim -> batch head (block token step) dim"
        return rearrange(blocks, order, step=self.pattern.step)[:, :, :length]

    def _seen_in_blocks(
        self, layout: Layout, mask: Mask | None, length: int
    ) -> Bool[Tensor, "#batch 1 block query key"]:
        # a query of padding, or beyond the end, sees itself; global tokens always see others
        alone = layout.positions[:, :, None] == layout.keys[:, None]
        alone &= (layout.positions >= self.pattern.tokens)[:, :, None]
        alone[:, :, self.pattern.size :] = False  # its own block comes first; others fill gaps
        if mask is None:
            return (layout.seen | alone)[None, None]
        real = mask[:, 0, 0][:, layout.keys.clamp(max=length - 1)]
        return ((layout.seen & real[:, :, None]) | alone)[:, None]


def _gather(blocks: Tensor, gathered: Int[Tensor, "block seen"]) -> Tensor:
    """The tokens of all blocks that each block sees, [batch head block key dim]."""
    chosen = blocks.index_select(2, gathered.flatten())
    return rearrange(chosen, "batch head (block seen) token dim -> batch head block (seen token) "
                     "dim", block=len(gathered))  # fmt: skip


def _real(seen: Bool[Tensor, "1 1 query key"], mask: Mask) -> Mask:
    own = torch.eye(seen.shape[-1], dtype=torch.bool, device=seen.device)
    return (seen & mask) | own
