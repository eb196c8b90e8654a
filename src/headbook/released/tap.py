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
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.pytorch_utils import Conv1D

from headbook.models.capture import Point, Recorder
from headbook.models.edits import EDITABLE, Edit
from headbook.types import UserError

NAME = "headbook"
"""The tap's name among the attention functions of `transformers`."""

SAME = 1e-4
"""Largest difference between recorded weights and the softmax of recomputed scores."""


class TappedBlock(nn.Module):
    """One use of an attention module: a head of a tied layer is another head in each use.

    `key_value_heads` is smaller than `heads` where these share keys and values in groups of
    neighbours; recorded keys and values are spread to [batch head key dim], as our own are.
    Weights of models with attention sinks sum to less than one, see `sink`.
    """

    editable: ClassVar[tuple[Point, ...]] = EDITABLE

    def __init__(self, name: str, heads: int, key_value_heads: int) -> None:
        super().__init__()
        self.name = name
        self.heads = heads
        self.key_value_heads = key_value_heads
        self.gate: nn.Module | None = None
        self.record: Recorder | None = None
        self.edits: Mapping[Point, Edit] = {}
        self.calls = 0
        self._projection: tuple[nn.Module, ...] = ()  # a tuple: the model's, not a part of this

    def projects_by(self, projection: nn.Module) -> None:
        """Says which module of the model is W_O."""
        self._projection = (projection,)

    @property
    def output_weight(self) -> Float[Tensor, "model inner"]:
        """W_O, see `Block`; UserError where no linear layer reads the contexts."""
        if not self._projection:
            raise UserError(f"{self.name}: its output projection cannot be told from other layers")
        (projection,) = self._projection
        # GPT-2's layers lie the other way round.
        return projection.weight if isinstance(projection, nn.Linear) else projection.weight.T

    def wants(self, point: Point) -> bool:
        """Whether the point is being recorded; a recorder that does not say wants everything."""
        return self.record is not None and point in getattr(self.record, "points", Point)

    def gated(
        self, context: Float[Tensor, "batch head query dim"]
    ) -> Float[Tensor, "batch head query dim"]:
        """The context times its head's multiplier, [head] or [batch head]."""
        return context if self.gate is None else context * self.gate()[..., None, None]


@dataclass(frozen=True)
class Call:
    """Results of one attention module: query, key and value as the interface gave them."""

    module: nn.Module
    query: Float[Tensor, "batch head query dim"]
    key: Float[Tensor, "batch group key dim"]
    value: Float[Tensor, "batch group key value"]
    mask: Tensor | None
    options: dict[str, Any]
    weights: Float[Tensor, "batch head query key"]
    context: Float[Tensor, "batch head query value"]

    def edited(self, block: TappedBlock) -> "Call":
        """The call with the block's edits; a new context follows from new weights."""
        call = self
        if (edit := block.edits.get(Point.WEIGHTS)) is not None:
            weights = edit(self.weights)
            call = replace(call, weights=weights, context=weights @ self._spread(self.value))
        if (edit := block.edits.get(Point.CONTEXT)) is not None:
            call = replace(call, context=edit(call.context))
        return call

    def show(self, block: TappedBlock) -> None:
        """Records what the block's recorder wants."""
        if block.record is None:
            return
        if self.module.training and self.options.get("dropout"):
            raise RuntimeError(f"{block.name} drops weights in training; call eval() to record")
        block.record(Point.QUERIES, self.query)
        block.record(Point.KEYS, self._spread(self.key))
        block.record(Point.VALUES, self._spread(self.value))
        block.record(Point.WEIGHTS, self.weights)
        block.record(Point.CONTEXT, self.context)
        if block.wants(Point.SCORES):
            block.record(Point.SCORES, self.scores())

    def scores(self) -> Float[Tensor, "batch head query key"]:
        """The softmax's argument, -inf where masked; T5's is unscaled and holds its bias.

        Computed anew, as the interface does not show them, and compared with the weights.
        UserError where an architecture does something else before its softmax.
        """
        scaling = self.options.get("scaling")
        scaling = self.query.shape[-1] ** -0.5 if scaling is None else scaling
        scores = self.query @ self._spread(self.key).transpose(-2, -1) * scaling
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

    def _spread(self, shared: Tensor) -> Tensor:
        groups, heads = shared.shape[1], self.query.shape[1]
        return shared if groups == heads else shared.repeat_interleave(heads // groups, dim=1)


@contextmanager
def readers(model: nn.Module, calls: list[Call], found: dict[int, nn.Module]) -> Iterator[None]:
    """Notes in `found`, by place in `calls`, the first linear layer that reads a call's contexts.

    Whatever the architecture calls it, that layer is W_O: its input is the heads' contexts side
    by side. Where something else stands between (a norm, a gate) nothing is found.
    """

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        at = len(calls) - 1
        if at >= 0 and at not in found and _beside(calls[at].context, inputs[0]):
            found[at] = module

    layers = [each for each in model.modules() if isinstance(each, nn.Linear | Conv1D)]
    hooks = [each.register_forward_pre_hook(note) for each in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _beside(context: Tensor, given: Tensor) -> bool:
    """Whether the input is these contexts, heads side by side."""
    own = context.transpose(1, 2).flatten(-2)
    return own.numel() == given.numel() and torch.equal(own.flatten(), given.flatten())


Listener = Callable[[Call], Tensor]
"""Gets a call and gives the context to go on with, [batch head query value]."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Shows the listener every call of the tap for as long as the block lasts."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def sink(
    weights: Float[Tensor, "batch head query key"],
) -> Float[Tensor, "batch head query"]:
    """The weight that a learned sink took, which is on no key: 1 − Σ_j a_ij."""
    return 1 - weights.sum(-1)


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
    eager = _eager_of(module)
    context, weights = eager(module, query, key, value, attention_mask, **options)
    listener = _listener.get()
    if listener is None:
        return context, weights
    # The listener's tensor is the one that the model goes on with: gradients are taken by it.
    call = Call(
        module, query, key, value, attention_mask, options, weights, context.transpose(1, 2)
    )
    return listener(call).transpose(1, 2), weights


def _eager_of(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor]]:
    """The eager function in the file that the module's own forward was written in."""
    written = inspect.unwrap(type(module).forward).__globals__
    if "eager_attention_forward" not in written:
        raise UserError(
            f"{type(module).__name__} has no eager attention function; "
            "models of this architecture cannot be looked at"
        )
    return written["eager_attention_forward"]


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, eager_mask)
