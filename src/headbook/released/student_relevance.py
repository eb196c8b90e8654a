"""The forward pass of a Firefox student with all that relevance is propagated back through."""

import torch

from headbook.heads.relevance_pass import (
    CORE,
    AttentionStep,
    FeedForwardStep,
    Linears,
    Memory,
    Pass,
    RecurrenceStep,
    States,
    Step,
)
from headbook.heads.relevance_rules import Core
from headbook.models.attention import Attention, Mask, MemoryMask
from headbook.models.capture import Tape, capture
from headbook.released.student import EncoderLayer, FeedForward, Recurrence, Student
from headbook.text.batches import Batch
from headbook.types import Kind


def student_pass(student: Student, batch: Batch) -> Pass:
    """Runs the student on the batch, teacher-forced, and keeps every layer's activations.

    The student is to be in eval mode. Its layer norms pass relevance on unchanged and its forget
    gates are constants, as attention weights are in the rule that holds them constant.
    """
    with capture(student, frozenset(CORE)) as tape:
        real = batch.source_mask
        mask = None if bool(real.all()) else real[:, None, None, :]
        states, encoder = student.embedded_source(batch.source), []
        for layer in student.encoder:
            states, steps = _encoder_layer(layer, states, mask, tape)
            encoder.append(steps)
        memory = states
        states, decoder = student.embedded_target(batch.target_in), []
        for layer in student.decoder:
            step = _recurrence(layer.recurrence, states)
            states = layer.recurrence_norm(states + step.added)
            cross = _attention(Kind.CROSS, layer.cross, states, mask, tape, memory)
            states = layer.cross_norm(states + cross.added)
            fed = _feed_forward(layer.feed_forward, states)
            states = layer.feed_forward_norm(states + fed.added)
            decoder.append([step, cross, fed])
    return Pass(encoder, decoder, states, student.logits(states), student.target.weight)


def _encoder_layer(
    layer: EncoderLayer, states: States, mask: MemoryMask | None, tape: Tape
) -> tuple[States, list[Step]]:
    own = _attention(Kind.ENCODER, layer.attention, states, mask, tape)
    states = layer.attention_norm(states + own.added)
    fed = _feed_forward(layer.feed_forward, states)
    return layer.feed_forward_norm(states + fed.added), [own, fed]


def _attention(
    kind: Kind,
    block: Attention,
    states: States,
    mask: Mask | MemoryMask | None,
    tape: Tape,
    memory: Memory | None = None,
) -> AttentionStep:
    added = block(states, states if memory is None else memory, mask)
    core = Core(*(tape[kind, point][-1] for point in CORE))
    return AttentionStep(block, states, states, memory, added, core)


def _feed_forward(block: FeedForward, states: States) -> FeedForwardStep:
    hidden = block.first(states).relu()
    return FeedForwardStep(
        Linears(block.first, block.second), states, states, hidden, block.second(hidden)
    )


def _recurrence(block: Recurrence, states: States) -> RecurrenceStep:
    forget = block.forget(states).sigmoid()
    candidates = block.candidate(states)
    added, _ = block(states)
    # relu(c) does not tell the cells below 0, which relevance passes through as well
    cells = torch.empty_like(candidates)
    before = torch.zeros_like(candidates[:, 0])
    for time in range(candidates.shape[1]):
        kept, new = forget[:, time], candidates[:, time]
        before = kept * before + (1 - kept) * new
        cells[:, time] = before
    return RecurrenceStep(block.candidate.weight, states, states, forget, candidates, cells, added)
