"""The forward pass that relevance is propagated back through, with all that its rules read."""

from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from headbook.heads.relevance_rules import Core
from headbook.models.attention import Attention, Mask, MemoryMask
from headbook.models.capture import Point, Tape, capture
from headbook.models.transformer import FeedForward, Residual, Transformer
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

CORE = (
    Point.QUERIES,
    Point.KEYS,
    Point.VALUES,
    Point.SCORES,
    Point.WEIGHTS,
    Point.CONTEXT,
)
States = Float[Tensor, "batch token model"]
Memory = Float[Tensor, "batch source model"]


@dataclass(frozen=True)
class AttentionStep:
    """One attention block: input, intermediate results, and the two terms of its residual."""

    block: Attention
    skip: States
    inputs: States
    memory: Memory | None  # None in self-attention, where it is the inputs
    added: States
    core: Core

    @property
    def gated(self) -> Float[Tensor, "batch query inner"]:
        """All heads side by side as W_O reads them."""
        gate = self.block.gate
        context = self.core.context if gate is None else self.core.context * gate()[..., None, None]
        return rearrange(context, "batch head query dim -> batch query (head dim)")

    def first(self, tokens: int) -> "AttentionStep":
        """The step of a decoder that has seen so many tokens only; causal masks make it exact."""
        keys = tokens if self.memory is None else self.core.keys.shape[2]
        core = Core(
            queries=self.core.queries[:, :, :tokens],
            keys=self.core.keys[:, :, :keys],
            values=self.core.values[:, :, :keys],
            scores=self.core.scores[:, :, :tokens, :keys],
            weights=self.core.weights[:, :, :tokens, :keys],
            context=self.core.context[:, :, :tokens],
        )
        return replace(self, core=core, **_first(self, tokens))


@dataclass(frozen=True)
class Linears:
    """The two linear layers of a feed-forward block, whatever the model calls them."""

    inner: nn.Linear
    outer: nn.Linear


@dataclass(frozen=True)
class FeedForwardStep:
    """One feed-forward block: its input, its neurons after the ReLU, and its residual."""

    block: FeedForward | Linears
    skip: States
    inputs: States
    hidden: Float[Tensor, "batch token hidden"]
    added: States

    def first(self, tokens: int) -> "FeedForwardStep":
        return replace(self, hidden=self.hidden[:, :tokens], **_first(self, tokens))


@dataclass(frozen=True)
class RecurrenceStep:
    """A simpler simple recurrent unit: c_t = f_t c_{t-1} + (1 - f_t) W x_t, and relu(c_t) added."""

    weight: Float[Tensor, "model model"]
    skip: States
    inputs: States
    forget: States
    candidates: States  # W x
    cells: States
    added: States

    def first(self, tokens: int) -> "RecurrenceStep":
        """The step of a decoder that has seen so many tokens only."""
        cut = {n: getattr(self, n)[:, :tokens] for n in ("forget", "candidates", "cells")}
        return replace(self, **cut, **_first(self, tokens))


Step = AttentionStep | FeedForwardStep | RecurrenceStep


@dataclass(frozen=True)
class Pass:
    """A forward pass: the steps of every layer from the input upward, and what came out."""

    encoder: list[list[Step]]
    decoder: list[list[Step]]
    output: States  # the decoder's, behind its final norm
    logits: Float[Tensor, "batch token vocabulary"]
    last: Float[Tensor, "vocabulary model"]  # the weight that gives the logits

    @property
    def predicted(self) -> Int[Tensor, "batch token"]:
        """The token with the largest logit."""
        return self.logits.argmax(-1)


def forward_pass(model: Transformer, batch: Batch) -> Pass:
    """Runs the model on the batch, teacher-forced, and keeps every layer's activations.

    The model is to be in eval mode. UserError for a model without encoder or decoder, or with
    unequal numbers of heads.
    """
    _check(model)
    with capture(model, frozenset(CORE)) as tape:
        walk = _Walk(tape)
        real = batch.source_mask
        memory_mask = None if bool(real.all()) else real[:, None, None, :]
        states, encoder = model.source(batch.source), []
        for layer in model.encoder:
            states, steps = walk.layer(layer, states, memory_mask)
            encoder.append(steps)
        memory = model.encoder_norm(states)
        length = batch.target_in.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=memory.device).tril()
        states, decoder = model.target(batch.target_in), []
        for layer in model.decoder:
            states, steps = walk.layer(layer, states, causal[None, None], memory, memory_mask)
            decoder.append(steps)
    output = model.decoder_norm(states)
    return Pass(encoder, decoder, output, model.logits(output), model.logits.weight)


class _Walk:
    """Runs layers while their attention is captured."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def layer(
        self,
        layer: torch.nn.Module,
        states: States,
        mask: Mask | MemoryMask | None,
        memory: Memory | None = None,
        memory_mask: MemoryMask | None = None,
    ) -> tuple[States, list[Step]]:
        kind = Kind.ENCODER if memory is None else Kind.DECODER
        states, own = self.attention(kind, layer.attention, layer.around_attention, states, mask)
        steps: list[Step] = [own]
        if memory is not None:
            states, cross = self.attention(
                Kind.CROSS, layer.cross, layer.around_cross, states, memory_mask, memory
            )
            steps.append(cross)
        states, fed = _feed_forward(layer.feed_forward, layer.around_feed_forward, states)
        return states, [*steps, fed]

    def attention(
        self,
        kind: Kind,
        block: Attention,
        around: Residual,
        states: States,
        mask: Mask | MemoryMask | None,
        memory: Memory | None = None,
    ) -> tuple[States, AttentionStep]:
        inputs = around.before(states)
        added = block(inputs, inputs if memory is None else memory, mask)
        core = Core(*(self.tape[kind, point][-1] for point in CORE))
        return around.after(states, added), AttentionStep(
            block, states, inputs, memory, added, core
        )


def _feed_forward(
    block: FeedForward, around: Residual, states: States
) -> tuple[States, FeedForwardStep]:
    inputs = around.before(states)
    hidden = block.inner(inputs).relu()
    added = block.outer(hidden)
    return around.after(states, added), FeedForwardStep(block, states, inputs, hidden, added)


def _first(step: Step, tokens: int) -> dict[str, Tensor]:
    return {name: getattr(step, name)[:, :tokens] for name in ("skip", "inputs", "added")}


def _check(model: Transformer) -> None:
    if not (model.config.encoder_layers and model.config.decoder_layers):
        raise UserError("relevance is propagated through an encoder and a decoder; one has none")
    counts = {block.heads for _, _, block in model.attentions()}
    if len(counts) > 1 or 0 in counts:
        raise UserError(
            "relevance needs the same number of heads in every block; close heads by gates instead"
        )
