"""Relevance of heads: each prediction's logit propagated down to every head of a translator."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headbook.heads.relevance_rules import Core, Rules
from headbook.models.attention import Attention
from headbook.models.capture import Point, capture
from headbook.models.transformer import NormPlacement
from headbook.text.batches import Batch
from headbook.types import Kind

CORE = (Point.QUERIES, Point.KEYS, Point.VALUES, Point.SCORES, Point.WEIGHTS, Point.CONTEXT)
BLOCKS = ("attention", "cross", "feed_forward")
"""The blocks that a layer may have, in their order."""
ROWS = 2048
"""Relevance vectors (sentences × predictions × tokens) propagated at a time."""
Relevance = Float[Tensor, "batch prediction _token _dim"]
States = Float[Tensor, "batch token model"]


@dataclass(frozen=True)
class Translator:
    """A network of ours or a Firefox student: layers of `BLOCKS`, each of them in a residual.

    `decoded` gives the decoder's states, and `last` is the weight that makes logits of them.
    """

    network: nn.Module
    decoded: Callable[[Batch], States]
    last: Float[Tensor, "vocabulary model"]


@dataclass(frozen=True)
class Relevances:
    """Every prediction's relevance, as shares of what it started with; all 0 where not counted.

    `heads` holds what arrives at each head's neurons right before W_O, summed over tokens and
    dimensions. `conserved` is the total in the whole network once it has passed a layer: below a
    decoder layer that is the layer's input and what has reached the encoder's output so far, below
    an encoder layer its input and the decoder's embeddings.
    """

    heads: dict[Kind, Float[Tensor, "batch prediction _layer head"]]
    conserved: dict[Kind, Float[Tensor, "batch prediction _layer"]]  # encoder and decoder
    counted: Bool[Tensor, "batch prediction"]


@torch.no_grad()
def relevances(model: Translator, batch: Batch, rules: Rules, rows: int = ROWS) -> Relevances:
    """Relevance of all heads for every target token of the batch, EOS counted, in eval mode.

    A prediction is the top logit at its position of one teacher-forced pass; it starts with
    relevance 1. Predictions are propagated together, as many at a time as `rows` allows: one target
    position of every sentence at least.
    """
    seen, counted = _Pass(model, batch), batch.target_mask
    weight = model.last[model.network.logits(seen.states).argmax(-1)]
    # Filled, not multiplied: what rows of padding hold need not be a number.
    own = rules.logit(seen.states, weight).masked_fill(~counted[..., None], 0.0)
    several = max(rows // (len(batch) * max(batch.source.shape[1], own.shape[1])), 1)
    parts = []
    for places in torch.arange(own.shape[1], device=own.device).split(several):
        # Only what stands at a prediction's own position is not 0.
        start = own.new_zeros(len(own), len(places), *own.shape[1:])
        start[:, torch.arange(len(places)), places] = own[:, places]
        parts.append(_descent(seen, rules, start))
    heads, conserved = (
        {kind: torch.cat([part[kind] for part in side], 1) for kind in side[0]}
        for side in zip(*parts, strict=True)
    )
    return Relevances(heads, conserved, counted)


class _Pass:
    """A forward pass with what every module in a layer was given and gave, and attention's core."""

    def __init__(self, model: Translator, batch: Batch) -> None:
        self.stacks = {kind: getattr(model.network, kind) for kind in (Kind.ENCODER, Kind.DECODER)}
        self.kinds = {block: (kind, at) for kind, at, block in model.network.attentions()}
        self.given: dict[nn.Module, Tensor] = {}
        self.gave: dict[nn.Module, Tensor] = {}
        every = [each for stack in self.stacks.values() for each in stack.modules()]
        hooks = [each.register_forward_hook(self._keep) for each in every]
        try:
            with capture(model.network, frozenset(CORE)) as self.tape:
                self.states = model.decoded(batch)
        finally:
            for hook in hooks:
                hook.remove()

    def _keep(self, module: nn.Module, given: tuple, gave: Tensor | tuple) -> None:
        if given:  # a gate is given nothing
            self.given[module] = given[0]
        self.gave[module] = gave[0] if isinstance(gave, tuple) else gave

    def residuals(self, layer: nn.Module) -> Iterator[tuple[nn.Module, States]]:
        """A layer's blocks from the top, each with what its output is added to."""
        for name in reversed(BLOCKS):
            if block := getattr(layer, name, None):
                around = getattr(layer, f"around_{name}")
                before = around.placement is NormPlacement.PRE
                yield block, self.given[around.norm if before else block]

    def core(self, block: Attention) -> Core:
        kind, layer = self.kinds[block]
        return Core(*(self.tape[kind, point][layer] for point in CORE))


Found = dict[Kind, Tensor]


def _descent(seen: _Pass, rules: Rules, start: Relevance) -> tuple[Found, Found]:
    """Heads' relevance and what is conserved, by layer, on one way down from the decoder's top."""
    heads: dict[Kind, list[Tensor]] = {kind: [] for kind in Kind}
    conserved: dict[Kind, list[Tensor]] = {}
    relevance, beside = start, start.new_zeros(())  # beside it: what has left for the other stack
    for kind in (Kind.DECODER, Kind.ENCODER):
        conserved[kind] = []
        for layer in reversed(seen.stacks[kind]):
            for block, skip in seen.residuals(layer):
                relevance, added = rules.residual(skip, seen.gave[block], relevance)
                if isinstance(block, Attention):
                    inputs, memory, by_head = _through_attention(seen, rules, block, added)
                    heads[seen.kinds[block][0]].append(by_head.sum((-1, -2)).transpose(1, 2))
                    beside = beside + memory
                else:
                    inputs = _through_others(seen, rules, block, added)
                relevance = relevance + inputs
            conserved[kind].append(sum(each.sum((-1, -2)) for each in (relevance, beside)))
        relevance, beside = beside, relevance
    return tuple(
        {kind: torch.stack(layers[::-1], dim=2) for kind, layers in found.items() if layers}
        for found in (heads, conserved)
    )


def _through_others(seen: _Pass, rules: Rules, block: nn.Module, relevance: Relevance) -> Relevance:
    """Through a feed-forward block, or a recurrence; the ReLU passes relevance on."""
    linears = [each for each in block.children() if isinstance(each, nn.Linear)]
    if forget := getattr(block, "forget", None):
        linears.remove(forget)
        decay, candidates = seen.gave[forget].sigmoid(), seen.gave[block.candidate]
        # relu(c) does not tell the cells below 0, which relevance passes through as well
        cells = [torch.zeros_like(candidates[:, 0])]
        for kept, new in zip(decay.unbind(1), candidates.unbind(1), strict=True):
            cells.append(kept * cells[-1] + (1 - kept) * new)
        relevance = rules.recurrence(decay, candidates, torch.stack(cells[1:], 1), relevance)
    for each in reversed(linears):
        relevance = rules.linear(seen.given[each], each.weight, each.bias, relevance)
    return relevance


def _through_attention(
    seen: _Pass, rules: Rules, block: Attention, relevance: Relevance
) -> tuple[Relevance | float, Relevance | float, Tensor]:
    """To what the block read, to the encoder's output by cross-attention, and to the heads."""
    output = block.output
    arrived = rules.linear(seen.given[output], output.weight, output.bias, relevance)
    by_head = rearrange(
        arrived,
        "batch prediction token (head dim) -> batch head prediction token dim",
        head=block.heads,
    ).contiguous()
    shares = rules.attention(seen.core(block), by_head)
    parts = dict(zip((block.query, block.key, block.value), shares, strict=True))

    def joined(*linears: nn.Linear) -> Relevance | float:
        """Through projections of the same inputs, which make one linear layer."""
        some = [each for each in linears if parts[each] is not None]
        if not some:
            return 0.0
        above = [
            rearrange(
                parts[each],
                "batch head prediction token dim -> batch prediction token (head dim)",
            )
            for each in some
        ]
        weight = torch.cat([each.weight for each in some])
        bias = torch.cat([each.bias for each in some])
        return rules.linear(seen.given[some[0]], weight, bias, torch.cat(above, -1))

    if seen.kinds[block][0] is not Kind.CROSS:
        return joined(*parts), 0.0, by_head
    return joined(block.query), joined(block.key, block.value), by_head
