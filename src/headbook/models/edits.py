"""Edits: a block's weights or contexts replaced in the middle of a forward pass."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor

from headbook.models.capture import Capturable, Point
from headbook.types import Kind, UserError

Edit = Callable[[Tensor], Tensor]
"""Gets what a block computed and gives what it goes on with, of the same shape."""

EDITABLE = (Point.WEIGHTS, Point.CONTEXT)


@contextmanager
def edited(
    model: Capturable, edits: Mapping[tuple[Kind, int], Mapping[Point, Edit]]
) -> Iterator[None]:
    """Edits the blocks of these kinds and layers (from zero) for as long as the block lasts.

    Weights are [batch head query key] after the softmax, contexts [batch head query dim] before
    the gate. Meanwhile the edited values are recorded. UserError for a block that the model
    lacks and for a point that cannot be edited in it.
    """
    blocks = {(kind, layer): block for kind, layer, block in model.attentions()}
    for place, own in edits.items():
        if place not in blocks:
            raise UserError(f"the model has no {place[0]} attention in layer {place[1] + 1}")
        editable = getattr(blocks[place], "editable", EDITABLE)
        if refused := [point for point in own if point not in editable]:
            raise UserError(f"{refused[0]} of this model cannot be edited, only {editable[-1]}")
    before = {place: blocks[place].edits for place in edits}
    try:
        for place, own in edits.items():
            blocks[place].edits = dict(own)
        yield
    finally:
        for place, own in before.items():
            blocks[place].edits = own
