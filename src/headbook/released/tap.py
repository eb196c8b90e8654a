"""One tap for every model of `transformers` that computes attention through its interface.

The library lets a user register an attention function by name and switch a model to it. Ours calls
the architecture's own eager function, so the arithmetic stays the model's, and shows the call to
whoever listens; that one may change the context on its way to the output projection.

The mask is registered under the same name: without it the library passes no mask at all, and causal
models see the future.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.pytorch_utils import Conv1D

from headbook.models.capture import Point, Recorder
from headbook.models.edits import Edit
from headbook.types import UserError

NAME = "headbook"
"""The tap's name among the attention functions of `transformers`."""

HALF = (torch.bfloat16, torch.float16)
"""Types in which a model may run; its attention is computed in float32 all the same."""

SAME = 1e-4
"""Largest difference between recorded weights and the softmax of recomputed scores."""


@dataclass(frozen=True)
class Call:
    """Results of one attention module: query, key and value as the interface gave them.

    Where heads share keys and values in groups of neighbours there are fewer of these. Weights of
    models with attention sinks sum to less than one: the sink took the rest.
    """

    module: nn.Module
    query: Float[Tensor, "batch head query dim"]
    key: Float[Tensor, "batch group key dim"]
    value: Float[Tensor, "batch group key value"]
    mask: Tensor | None
    options: dict[str, Any]
    weights: Float[Tensor, "batch head query key"]
    context: Float[Tensor, "batch head query value"]

    def spread(self, shared: Tensor) -> Tensor:
        """Keys or values as every head sees them, [batch head key dim]."""
        return shared.repeat_interleave(self.query.shape[1] // shared.shape[1], dim=1)

    def scores(self) -> Float[Tensor, "batch head query key"]:
        """The softmax's argument, -inf where masked; T5's is unscaled and holds its bias.

        Computed anew, as the interface does not show them, and compared with the weights.
        UserError where an architecture does something else before its softmax.
        """
        scaling = self.options.get("scaling")
        scaling = self.query.shape[-1] ** -0.5 if scaling is None else scaling
        scores = self.query @ self.spread(self.key).transpose(-2, -1) * scaling
        if (limit := self.options.get("softcap")) is not None:
            scores = limit * torch.tanh(scores / limit)
        if (bias := self.options.get("position_bias")) is not None:
            scores = scores + bias
        if self.mask is not None:
            blocked = self.mask < torch.finfo(self.mask.dtype).min / 2
            scores = (scores + self.mask).masked_fill(blocked, -torch.inf)
        with torch.no_grad():
            # A sink takes the same share of every key of a row.
            given = scores.softmax(-1) * self.weights.sum(-1, keepdim=True)
            alike = (given - self.weights).abs().nan_to_num().max() < SAME
        if not alike:
            raise UserError(
                f"{type(self.module).__name__} has scores that cannot be computed anew; "
                "record weights instead"
            )
        return scores


class TappedBlock(nn.Module):
    """One use of an attention module: a head of a tied layer is another head in each use.

    `projection` is the module of W_O where there is one. Recorded keys and values are spread to
    [batch head key dim], as our own are.
    """

    def __init__(self, name: str, heads: int, module: nn.Module, projection: nn.Module | None):
        super().__init__()
        self.name = name
        self.heads = heads
        self.gate: nn.Module | None = None
        self.record: Recorder | None = None
        self.edits: Mapping[Point, Edit] = {}
        self.calls = 0
        # the model's own, not parts of this
        self.__dict__ |= {"module": module, "projection": projection}

    @property
    def output_weight(self) -> Float[Tensor, "model inner"]:
        """W_O, see `Block`; UserError where no linear layer reads the contexts."""
        projection = self.projection
        if projection is None:
            raise UserError(f"{self.name}: its output projection cannot be told from other layers")
        # GPT-2's layers lie the other way round.
        return projection.weight if isinstance(projection, nn.Linear) else projection.weight.T

    def _of_ours(self) -> nn.Module:
        raise UserError(
            f"{self.name}: this reads layers of an attention block, which other libraries keep in "
            "forms of their own; name a model of Firefox's or one that is trained here"
        )

    query = key = value = output = property(_of_ours)

    def forward(self, call: Call) -> Float[Tensor, "batch head query dim"]:
        """Edits and records the call; the context to go on with is that times the gate."""
        self.calls += 1
        if (edit := self.edits.get(Point.WEIGHTS)) is not None:
            weights = edit(call.weights)
            call = replace(call, weights=weights, context=weights @ call.spread(call.value))
        if (edit := self.edits.get(Point.CONTEXT)) is not None:
            call = replace(call, context=edit(call.context))
        if self.record is not None:
            if call.module.training and call.options.get("dropout"):
                raise RuntimeError(f"{self.name} drops weights in training; call eval() to record")
            self.record(Point.QUERIES, call.query)
            self.record(Point.KEYS, call.spread(call.key))
            self.record(Point.VALUES, call.spread(call.value))
            self.record(Point.WEIGHTS, call.weights)
            self.record(Point.CONTEXT, call.context)
            # A recorder that does not say what it wants wants everything.
            if Point.SCORES in getattr(self.record, "points", Point):
                self.record(Point.SCORES, call.scores())
        return self.gated(call.context)

    def gated(self, context: Tensor) -> Float[Tensor, "batch head query dim"]:
        """The context times its heads' multipliers."""
        return context if self.gate is None else context * self.gate()[..., None, None]


@contextmanager
def readers(model: nn.Module, calls: list[Call], found: dict[int, nn.Module]) -> Iterator[None]:
    """Notes in `found`, by place in `calls`, the first linear layer that reads a call's contexts.

    Whatever the architecture calls it, that layer is W_O: its input is the heads' contexts side
    by side. Where something else stands between (a norm, a gate) nothing is found.
    """

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        at = len(calls) - 1
        if at >= 0 and at not in found:
            beside = calls[at].context.transpose(1, 2).flatten()
            if torch.equal(beside.to(inputs[0].dtype), inputs[0].flatten()):
                found[at] = module

    layers = [each for each in model.modules() if isinstance(each, nn.Linear | Conv1D)]
    hooks = [each.register_forward_pre_hook(note) for each in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


Listener = Callable[[Call], Tensor]
"""Gets a call and gives the context to go on with, [batch head query value]."""

_listening: ContextVar[tuple[Listener | None, bool]] = ContextVar("listening")


@contextmanager
def listening(listener: Listener, again: bool = False) -> Iterator[None]:
    """Shows the listener every call of the tap for as long as the block lasts.

    With `again` gradients keep no layer's weights, which are computed again on the way back. They
    go by the contexts then, not by the weights of a call.
    """
    token = _listening.set((listener, again))
    try:
        yield
    finally:
        _listening.reset(token)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """The architecture's own eager attention, shown to whoever listens.

    Context [batch query head value] and weights [batch head query key], as the interface wants.
    """
    # It stands in the file that the module's own forward was written in.
    written = inspect.unwrap(type(module).forward).__globals__
    if "eager_attention_forward" not in written:
        raise UserError(
            f"{type(module).__name__} has no eager attention function; "
            "models of this architecture cannot be looked at"
        )
    eager, own = written["eager_attention_forward"], query.dtype
    if own in HALF:
        query, key, value, attention_mask = map(single, (query, key, value, attention_mask))
        options = {name: single(each) for name, each in options.items()}
    # of a device that torch knows by name alone checkpoints can say nothing
    listener, again = _listening.get((None, False))
    if again and torch.is_grad_enabled() and hasattr(torch, query.device.type):
        eager = partial(checkpoint, eager, use_reentrant=False)
    context, weights = eager(module, query, key, value, attention_mask, **options)
    if listener is None:
        return context.to(own), weights
    # The listener's tensor is the one that the model goes on with: gradients are taken by it.
    given = (query, key, value, attention_mask, options, weights, context.transpose(1, 2))
    return listener(Call(module, *given)).transpose(1, 2).to(own), weights


def single(given: Any) -> Any:
    """A tensor of half precision in float32, a mask's smallest number as the smallest there."""
    if not isinstance(given, Tensor) or given.dtype not in HALF:
        return given
    blocked = given <= torch.finfo(given.dtype).min / 2
    return given.float().masked_fill(blocked, torch.finfo(torch.float32).min)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, eager_mask)
