"""Heads taken out in pairs and sets, and one while the heads above it are held (page 57).

McGrath et al. (2023) let everything behind a removed layer change, or hold it at what it gave in
the whole model: the difference is repaired. A hundred pairs of each sort, five sets of each size
and every head with the others held took 24 minutes per released model on one core.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.looking.close import close
from headbook.looking.effects import Effects, effects, joined
from headbook.models.capture import Point, capture
from headbook.models.edits import edited
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import HeadId

SHARES = (1 / 12, 1 / 6, 1 / 3, 1 / 2)
"""Sizes of removed sets, as shares of the heads."""
RANDOM, LEAST, LAYER = "random heads", "least important heads", "all heads of a layer"


def heads(model: Loaded) -> list[HeadId]:
    """The heads of the model's first kind of attention: an encoder's, or a decoder's."""
    kind = next(iter(model.network.attentions()))[0]
    return [head for head in all_heads(model.network) if head.kind is kind]


def random_pairs(heads: Sequence[HeadId], count: int) -> list[list[str]]:
    """Names of `count` pairs of heads of one layer, then of two; fewer are the first of more."""
    noise, found = np.random.default_rng(0), []
    layers = np.array([head.layer for head in heads])
    first, second = np.triu_indices(len(heads), 1)
    same = layers[first] == layers[second]
    for sort in (same, ~same):
        chosen = np.sort(noise.permutation(np.flatnonzero(sort))[:count])
        found += [[heads[first[at]].label, heads[second[at]].label] for at in chosen]
    return found


def sets(
    heads: Sequence[HeadId], effect: Float[np.ndarray, " head"], draws: int
) -> Iterator[tuple[str, int, int, list[int]]]:
    """Sort, size, draw or layer, and places: nested random sets, least important heads, layers."""
    sizes = [max(round(share * len(heads)), 1) for share in SHARES]
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(heads)).tolist()
        yield from ((RANDOM, size, draw, order[:size]) for size in sizes)
    order = np.argsort(effect).tolist()
    yield from ((LEAST, size, 0, order[:size]) for size in sizes)
    for layer in sorted({head.layer for head in heads}):
        own = [at for at, head in enumerate(heads) if head.layer == layer]
        yield LAYER, len(own), layer + 1, own


@contextmanager
def frozen(model: Loaded, head: HeadId, contexts: Sequence[Tensor]) -> Iterator[None]:
    """The head is silent, and heads of higher layers give what they gave before."""
    above = range(head.layer + 1, len(contexts))
    edits = {(head.kind, at): {Point.CONTEXT: lambda _, at=at: contexts[at]} for at in above}
    with close(model, head.label), edited(model.network, edits):
        yield


def held(model: Loaded, batches: Sequence[Batch], heads: Sequence[HeadId]) -> Effects:
    """What each head's removal adds while higher heads give what they gave in the whole model."""
    parts = []
    for batch in batches:
        with torch.inference_mode(), capture(model.network, {Point.CONTEXT}) as tape:
            model.network(batch)
            contexts = tape[heads[0].kind, Point.CONTEXT]
        ways = [partial(frozen, model, head, contexts) for head in heads]
        parts.append(effects(model, [batch], ways))
    return joined(parts)
