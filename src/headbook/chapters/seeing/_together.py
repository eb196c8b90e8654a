"""Removing heads together, and one head while the others are held as they were: page 57."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.looking.effects import Effects, effects, joined
from headbook.looking.passes import bar
from headbook.models.capture import Capturable, Point, capture
from headbook.models.edits import edited
from headbook.models.gates import closed
from headbook.models.loaded import Loaded
from headbook.types import HeadId

Pair = tuple[int, int]

"""Held of the heads above: their maps, so that only values change, or all that they give."""


def pairs_of(layers: np.ndarray, count: int, seed: int = 0) -> list[Pair]:
    """So many pairs of heads of one layer and as many of two, drawn without replacement."""
    noise = np.random.default_rng(seed)
    first, second = np.triu_indices(len(layers), 1)
    found: list[Pair] = []
    for chosen in (layers[first] == layers[second], layers[first] != layers[second]):
        places = np.flatnonzero(chosen)
        drawn = noise.permutation(places)[:count]
        found += [(int(first[at]), int(second[at])) for at in sorted(drawn)]
    return found


def removed(
    model: Loaded, batches: Sequence[Batch], heads: Sequence[HeadId], sets: Sequence[Sequence[int]]
) -> Effects:
    """The effect of closing each set of heads, given by their places in `heads`."""
    ways = [partial(closed, model.network, [heads[at] for at in chosen]) for chosen in sets]
    return effects(model, batches, ways, partial(bar, what="removing heads", unit="set"))


def held(model: Loaded, batches: Sequence[Batch], heads: Sequence[HeadId], point: Point) -> Effects:
    """The effect of closing each head while heads of higher layers keep this of the whole model."""
    parts = []
    for batch in bar(batches, f"holding {point}", "batch"):
        with torch.inference_mode(), capture(model.network, {point}) as tape:
            model.network(batch)
            recorded = tape[heads[0].kind, point]
        ways = [partial(_alone, model.network, head, point, recorded) for head in heads]
        parts.append(effects(model, [batch], ways))
    return joined(parts)


@contextmanager
def _alone(
    network: Capturable, head: HeadId, point: Point, recorded: Sequence[Tensor]
) -> Iterator[None]:
    edits = {(head.kind, layer): {point: _constant(recorded[layer])}
             for layer in range(head.layer + 1, len(recorded))}  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(closed(network, [head]))
        stack.enter_context(edited(network, edits))
        yield


def _constant(value: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _: value
