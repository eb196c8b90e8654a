"""Attention to few of the keys, in blocks: time and memory grow with the length, not its square.

Patterns of Longformer (Beltagy, Peters and Cohan 2020) and BigBird (Zaheer et al. 2020). Keys are
gathered block by block, so that no matrix of all queries and keys is ever there.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from headbook.models.attention import Attention, Mask, Reprojected

NONE = -1
"""No block."""


@dataclass(frozen=True)
class Pattern:
    """Keys that a query sees: of its block of `size` tokens, those beside it, and `drawn` others.

    A `window` (Longformer, section 3.1) is of `size` tokens on either side of the query, each
    `step` apart; else (BigBird) whole blocks are seen. Drawn blocks are the same for all heads and
    texts of one length; they stand in a circle, of which those next to the query's are left out.
    The first `tokens` of the text are global: every query sees them, and they see every key.
    """

    size: int
    window: bool = False
    step: int = 1
    tokens: int = 0
    drawn: int = 0

    def blocks(self, count: int) -> Int[Tensor, "block seen"]:
        """The blocks that each of `count` blocks sees, itself first; NONE where there are fewer."""
        own = torch.arange(count)[:, None]
        near = torch.cat([own, own - 1, torch.where(own + 1 < count, own + 1, NONE)], 1)
        far = max(0, count - 3)
        drawn = min(self.drawn, far)
        generator = torch.Generator().manual_seed(0)
        # one from each of so many equal parts of the circle, so that none is drawn twice
        part = (torch.arange(drawn) + torch.rand(count, drawn, generator=generator)) / max(drawn, 1)
        return torch.cat([near, (own + 2 + (part * far).long().clamp(max=far - 1)) % count], 1)


def lay_out(pattern: Pattern, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The blocks of a text: positions [block query]; whose keys each block sees [block seen]; the
    positions of these [block key]; and which of them each query does [block query key].

    Positions run beyond the text's end where it does not fill its blocks. Global keys are not seen.
    """
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
    near = (positions[:, :, None] - keys[:, None]).abs() <= stride
    return positions, gathered.clamp(min=0), keys, (near | (not pattern.window)) & there[:, None]


def pairs(pattern: Pattern, length: int) -> Bool[Tensor, "query key"]:
    """Keys that each query sees, as a full matrix, to look at."""
    positions, _, keys, seen = lay_out(pattern, length)
    whole = torch.zeros(positions.numel(), positions.numel(), dtype=torch.bool)
    block, query, key = seen.nonzero(as_tuple=True)
    whole[positions[block, query], keys[block, key]] = True
    whole[: pattern.tokens] = whole[:, : pattern.tokens] = True
    return whole[:length, :length]


class Sparse(Reprojected):
    """Self-attention to the keys of a pattern, with another attention's projections; not causal.

    Global tokens use the same projections as all others (Longformer has a second set). Nothing is
    recorded or edited: the full matrix is never there.
    """

    def __init__(self, attention: Attention, pattern: Pattern) -> None:
        super().__init__(attention)
        self.pattern = pattern

    def _context(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask | None) -> Tensor:
        """As the full matrix has it."""
        query = query * query.shape[-1] ** -0.5
        length, first = query.shape[2], self.pattern.tokens
        positions, gathered, *by_key = lay_out(self.pattern, length)
        gathered = gathered.to(query.device)
        queries, keys, values = (self._in_blocks(each) for each in (query, key, value))
        keys, values = _gather(keys, gathered), _gather(values, gathered)
        seen = self._seen_in_blocks(positions, *by_key, mask).to(query.device)
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
        self, positions: Tensor, keys: Tensor, seen: Tensor, mask: Mask | None
    ) -> Bool[Tensor, "#batch 1 block query key"]:
        # a query of padding, or beyond the end, sees itself, as a row without any key has no
        # softmax; global tokens always see others
        alone = positions[:, :, None] == keys[:, None]
        alone &= (positions >= self.pattern.tokens)[:, :, None]
        alone[:, :, self.pattern.size :] = False  # its own block comes first; others fill gaps
        if mask is None:
            return (seen | alone)[None, None]
        real = mask[:, 0, 0][:, keys.clamp(max=mask.shape[-1] - 1)]
        return ((seen & real[:, :, None]) | alone)[:, None]


def _gather(blocks: Tensor, gathered: Int[Tensor, "block seen"]) -> Tensor:
    """The tokens of all blocks that each block sees, [batch head block key dim]."""
    chosen = blocks.index_select(2, gathered.flatten())
    return rearrange(chosen, "batch head (block seen) token dim -> batch head block (seen token) "
                     "dim", block=len(gathered))  # fmt: skip
