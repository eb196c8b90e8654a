"""Relevance of heads: each prediction's logit propagated down to every head of the model."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headbook.heads.relevance_pass import (
    AttentionStep,
    FeedForwardStep,
    Pass,
    RecurrenceStep,
    Step,
    forward_pass,
)
from headbook.heads.relevance_rules import CoreShares, HeadRelevance, Relevance, Rules
from headbook.text.batches import Batch
from headbook.types import Kind

MemoryRelevance = Float[Tensor, "batch prediction source dim"]
ROWS = 2048
"""Relevance vectors (sentences × predictions × tokens) propagated at a time."""


@dataclass(frozen=True)
class Relevances:
    """Every prediction's relevance, as shares of what it started with; all 0 where not counted.

    `heads` holds what arrives at each head's neurons right before W_O, summed over tokens and
    dimensions. `conserved` is the total in the whole network once it has passed a layer: below a
    decoder layer that is the layer's input and what has reached the encoder's output so far, below
    an encoder layer its input and the decoder's embeddings. `size` is the same of absolute values.
    `source` is the share that reached the encoder's output.
    """

    heads: dict[Kind, Float[Tensor, "batch prediction _layer head"]]
    conserved: dict[Kind, Float[Tensor, "batch prediction _layer"]]  # encoder and decoder
    size: dict[Kind, Float[Tensor, "batch prediction _layer"]]
    source: Float[Tensor, "batch prediction"]
    counted: Bool[Tensor, "batch prediction"]


@torch.no_grad()
def relevances(
    model: nn.Module,
    batch: Batch,
    rules: Rules,
    rows: int = ROWS,
    forward: Callable[[nn.Module, Batch], Pass] = forward_pass,
) -> Relevances:
    """Relevance of all heads for every target token of the batch, EOS counted, in eval mode.

    `forward` is the model's forward pass; by default that of our own transformer.

    A prediction is the top logit at its position of one teacher-forced pass; it starts with
    relevance 1. Predictions are propagated together, as many at a time as `rows` allows: one target
    position of every sentence at least.
    """
    passed = forward(model, batch)
    widest = max(batch.source.shape[1], batch.target_in.shape[1])
    several = max(rows // (len(batch) * widest), 1)
    length = batch.target_in.shape[1]
    parts = [
        propagate(batch, passed, rules, range(first, min(first + several, length)))
        for first in range(0, length, several)
    ]
    return _joined(parts)


def propagate(batch: Batch, passed: Pass, rules: Rules, predictions: range) -> Relevances:
    """Relevance of all heads for the predictions at a range of target positions."""
    descent = _Descent(rules)
    counted = batch.target_mask[:, predictions.start : predictions.stop]
    # What comes behind the last prediction had no part in any of them.
    tokens = predictions.stop
    relevance = _start(passed, rules, predictions, counted)
    memory = relevance.new_zeros(())
    for steps in reversed(passed.decoder):
        relevance, reached = descent.layer([step.first(tokens) for step in steps], relevance)
        memory = memory + reached
        descent.note(Kind.DECODER, relevance, memory)
    source, target = _total(memory), relevance
    for steps in reversed(passed.encoder):
        memory, _ = descent.layer(steps, memory)
        descent.note(Kind.ENCODER, memory, target)
    return descent.result(source, counted)


class _Descent:
    """One way down through the layers and what was seen on it, top layer first."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.heads: dict[Kind, list[Tensor]] = {kind: [] for kind in Kind}
        self.conserved: dict[Kind, list[Tensor]] = {Kind.ENCODER: [], Kind.DECODER: []}
        self.size: dict[Kind, list[Tensor]] = {Kind.ENCODER: [], Kind.DECODER: []}

    def layer(self, steps: list[Step], relevance: Relevance) -> tuple[Relevance, Tensor]:
        """Relevance of a layer's input, and of the encoder's output by its cross-attention."""
        reached = relevance.new_zeros(())
        kind = Kind.ENCODER if len(steps) == 2 else Kind.DECODER
        for step in reversed(steps):
            skip, added = self.rules.residual(step.skip, step.added, relevance)
            if isinstance(step, FeedForwardStep):
                relevance = skip.add_(self._feed_forward(step, added))
            elif isinstance(step, RecurrenceStep):
                relevance = skip.add_(self._recurrence(step, added))
            elif step.memory is None:
                relevance = skip.add_(self._self_attention(kind, step, added))
            else:
                queries, reached = self._cross_attention(step, added)
                relevance = skip if queries is None else skip.add_(queries)
        return relevance, reached

    def note(self, kind: Kind, *everywhere: Tensor) -> None:
        """Keeps the network's total relevance and its size."""
        self.conserved[kind].append(sum(_total(each) for each in everywhere))
        self.size[kind].append(sum(_total(each.abs()) for each in everywhere))

    def result(self, source: Tensor, counted: Tensor) -> Relevances:
        return Relevances(
            {kind: _upward(each) for kind, each in self.heads.items() if each},
            {kind: _upward(each) for kind, each in self.conserved.items()},
            {kind: _upward(each) for kind, each in self.size.items()},
            source,
            counted,
        )

    def _feed_forward(self, step: FeedForwardStep, relevance: Relevance) -> Relevance:
        outer, inner = step.block.outer, step.block.inner
        hidden = self.rules.linear(step.hidden, outer.weight, outer.bias, relevance)
        return self.rules.linear(step.inputs, inner.weight, inner.bias, hidden)

    def _recurrence(self, step: RecurrenceStep, relevance: Relevance) -> Relevance:
        """The ReLU passes relevance on, as in a feed-forward block."""
        candidates = self.rules.recurrence(step.forget, step.candidates, step.cells, relevance)
        return self.rules.linear(step.inputs, step.weight, None, candidates)

    def _self_attention(self, kind: Kind, step: AttentionStep, relevance: Relevance) -> Relevance:
        shares = self._heads(kind, step, relevance)
        block = step.block
        parts = {block.query: shares.queries, block.key: shares.keys, block.value: shares.values}
        return self._projections(step.inputs, parts)

    def _cross_attention(
        self, step: AttentionStep, relevance: Relevance
    ) -> tuple[Relevance | None, MemoryRelevance]:
        shares = self._heads(Kind.CROSS, step, relevance)
        block = step.block
        memory = self._projections(
            step.memory, {block.key: shares.keys, block.value: shares.values}
        )
        if shares.queries is None:
            return None, memory
        return self._projections(step.inputs, {block.query: shares.queries}), memory

    def _heads(self, kind: Kind, step: AttentionStep, relevance: Relevance) -> CoreShares:
        """Through W_O, where the heads' relevance is read, and the attention core."""
        output = step.block.output
        arrived = self.rules.linear(step.gated, output.weight, output.bias, relevance)
        by_head = rearrange(
            arrived, "batch pred token (head dim) -> batch head pred token dim",
            head=step.block.heads,
        ).contiguous()  # fmt: skip
        self.heads[kind].append(by_head.sum((-1, -2)).transpose(1, 2))
        return self.rules.attention(step.core, by_head)

    def _projections(
        self, inputs: Tensor, parts: dict[torch.nn.Linear, HeadRelevance | None]
    ) -> Relevance:
        """Through several projections of the same inputs, which make one linear layer."""
        given = {layer: each for layer, each in parts.items() if each is not None}
        weight = torch.cat([layer.weight for layer in given])
        bias = torch.cat([layer.bias for layer in given])
        relevance = torch.cat(
            [
                rearrange(each, "batch head pred token dim -> batch pred token (head dim)")
                for each in given.values()
            ],
            dim=-1,
        )
        return self.rules.linear(inputs, weight, bias, relevance)


def _start(
    passed: Pass,
    rules: Rules,
    predictions: range,
    counted: Bool[Tensor, "batch prediction"],
) -> Relevance:
    """Relevance of the decoder's output: only that at a prediction's own position is not 0."""
    places = torch.arange(predictions.start, predictions.stop, device=counted.device)
    weight = passed.last[passed.predicted[:, places]]
    own = rules.logit(passed.output[:, places], weight)
    # Filled, not multiplied: what rows of padding hold need not be a number.
    own = own.masked_fill(~counted[..., None], 0.0)
    batch, several, width = own.shape
    relevance = own.new_zeros(batch, several, predictions.stop, width)
    relevance[:, torch.arange(several), places] = own
    return relevance


def _total(relevance: Relevance) -> Float[Tensor, "batch prediction"]:
    return relevance.sum((-1, -2))


def _upward(layers: list[Tensor]) -> Tensor:
    """Relevances recorded from the top down, as one tensor with the lowest layer first."""
    return torch.stack(layers[::-1], dim=2)


def _joined(parts: list[Relevances]) -> Relevances:
    """Predictions of the same sentences side by side."""

    def cat(name: str) -> dict[Kind, Tensor]:
        kinds = getattr(parts[0], name)
        return {kind: torch.cat([getattr(part, name)[kind] for part in parts], 1) for kind in kinds}

    source = torch.cat([part.source for part in parts], 1)
    counted = torch.cat([part.counted for part in parts], 1)
    return Relevances(cat("heads"), cat("conserved"), cat("size"), source, counted)
