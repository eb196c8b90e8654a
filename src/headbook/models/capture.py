"""Recording what attention computes, for as long as a `with` block lasts."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from headbook.text.batches import Batch
from headbook.types import Kind


class Point(StrEnum):
    """Recordable points of one attention block, per head unless said otherwise."""

    QUERIES = "queries"  # [batch head query dim]
    KEYS = "keys"  # [batch head key dim]
    VALUES = "values"  # [batch head key dim]
    SCORES = "scores"  # [batch head query key], scaled, -inf where masked
    WEIGHTS = "weights"  # [batch head query key], after softmax and before dropout
    CONTEXT = "context"  # [batch head query dim], before the output projection
    OUTPUT = "output"  # [batch query model], of the whole block


Recorder = Callable[[Point, Tensor], None]
Keep = Callable[[Kind, int, Point, Tensor], Any]
"""What is kept of a value, by kind, layer (from zero) and point."""


@runtime_checkable
class Block(Protocol):
    """An attention block: while `record` is set it shows there what it computes.

    `gate`, where there is one, gives a multiplier for each head's context before the output
    projection: [head], or [batch head]. `edits` replace its weights or contexts, see edits.py.
    `output_weight` is the matrix of that projection, W_O as [model, head * dim]; UserError where it
    is out of reach. Measures alone ask for it, so a block that is only recorded need not have it.
    """

    heads: int
    record: Recorder | None
    gate: nn.Module | None
    edits: Mapping[Point, Callable[[Tensor], Tensor]]


@runtime_checkable
class Capturable(Protocol):
    """A model, ours or released, whose attention blocks can be listed, with kind and layer.

    Called with a batch it gives logits, or the encoder's states where it predicts nothing.
    """

    def attentions(self) -> Iterator[tuple[Kind, int, Block]]: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def __call__(self, batch: Batch) -> Tensor: ...


class Tape:
    """Recording of one forward pass: `tape[kind, point]` is a list of tensors, one per layer, or of
    what was kept of them.

    Tensors are those of the forward pass itself: part of its graph when gradients are on, and never
    to be changed in place.
    """

    def __init__(self) -> None:
        self._records: dict[tuple[Kind, Point], dict[int, Any]] = {}

    def record(self, kind: Kind, layer: int, point: Point, value: Any) -> None:
        """Keeps a value; a second forward pass over the same tape replaces the first."""
        self._records.setdefault((kind, point), {})[layer] = value

    def __getitem__(self, address: tuple[Kind, Point]) -> list[Any]:
        if address not in self._records:
            known = ", ".join(f"{kind}/{point}" for kind, point in self._records) or "nothing"
            raise KeyError(f"{address[0]}/{address[1]} was not captured; the tape holds {known}")
        layers = self._records[address]
        return [layers[layer] for layer in sorted(layers)]

    def __contains__(self, address: tuple[Kind, Point]) -> bool:
        return address in self._records


@dataclass(frozen=True)
class TapeRecorder:
    """Puts one block's `points` on the tape; a block may ask for these to spare itself others.

    What `keep` makes of a value is made as soon as the layer has computed it.
    """

    tape: Tape
    kind: Kind
    layer: int
    points: frozenset[Point]
    keep: Keep | None = None

    def __call__(self, point: Point, value: Tensor) -> None:
        if point in self.points:
            if self.keep is not None:
                value = self.keep(self.kind, self.layer, point, value)
            self.tape.record(self.kind, self.layer, point, value)


@contextmanager
def capture(
    model: Capturable,
    points: set[Point] | frozenset[Point],
    kinds: Collection[Kind] = tuple(Kind),
    keep: Keep | None = None,
) -> Iterator[Tape]:
    """Records `points` of the attention blocks of these kinds during the block, on a fresh tape.

    With `keep` only what it makes of each value stays, so that one layer's weights are held at a
    time. Attention takes its explicit path meanwhile. Captures of a block do not nest:
    RuntimeError.
    """
    tape = Tape()
    blocks = [block for block in model.attentions() if block[0] in kinds]
    if any(block.record is not None for _, _, block in blocks):
        raise RuntimeError("this model is being captured already")
    try:
        for kind, layer, block in blocks:
            block.record = TapeRecorder(tape, kind, layer, frozenset(points), keep)
        yield tape
    finally:
        for _, _, block in blocks:
            block.record = None
