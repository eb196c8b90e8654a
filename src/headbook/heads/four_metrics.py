"""The X-raying article's four metrics together, each raw and scale-free, for one kind of attention.

Raw orthogonality grows with the tokens, the width of a head and the variance of what is measured;
the raw variance of weights falls with the square of the length. The scale-free forms do neither.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.collect import recordings, stacked
from headbook.heads.diversity import (
    EPSILON,
    alignment,
    cosines,
    counted_maps,
    products,
    tokens_of,
    variance,
    without_diagonal,
)
from headbook.heads.outputs import Parts, output_parts
from headbook.heads.tokens import counted_keys
from headbook.models.capture import Capturable, Keep, Point
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

RAW, FREE = "raw", "scale-free"
ORTHOGONALITY = "query orthogonality"
"""Σ |entries of Q_iᵀ Q_j| over all tokens, 0 on the diagonal; scale-free the `alignment`."""
NON_ORTHOGONALITY = "context non-orthogonality"
"""‖C_iᵀ C_j‖_F of contexts, 0 on the diagonal; scale-free the `alignment`."""
DISSIMILARITY = "output dissimilarity"
"""Minus the mean cosine at the same token, 0 on the diagonal. Scale-free of the heads' outputs
C_h W_O^h; raw of slices of the block's output, one as wide as a head for each head, which the
article's notebook takes for these, though the output projection has mixed all heads; NaN where a
layer that lost heads cannot be cut so."""
ATTENTION = "attention diversity"
"""Variance of a key's weight across the queries, mean over keys and over sentences of several
queries; scale-free over the most it could be: 0 where every query attends alike, 1 where each
points at one key of its own."""
ARTICLE = (ORTHOGONALITY, NON_ORTHOGONALITY, DISSIMILARITY, ATTENTION)
"""The article's four."""
POINTS = frozenset({Point.QUERIES, Point.CONTEXT, Point.OUTPUT, Point.WEIGHTS})

Found = Mapping[tuple[str, str], Float[Tensor, "layer head ..."]]
"""By metric and form: [layer, head, head] of pairs, [layer, head] of attention diversity."""


def four_metrics(
    model: Capturable,
    kind: Kind,
    batches: Sequence[Batch],
    forms: Collection[str] = (RAW, FREE),
    training: bool = False,
) -> Found:
    """The four on these batches, in evaluation mode or in that of `training`.

    One layer's vectors are held at a time. Layers may differ in the number and width of their
    heads: NaN stands for heads that a layer lacks. Metrics whose vectors the model does not record
    are left out, as are true outputs where there is no output projection to compute them with.
    UserError where there is no batch.
    """
    if not batches:
        raise UserError("no text to measure diversity on: give at least one segment")
    heads = [block.heads for own, _, block in model.attentions() if own is kind]
    outputs = (_outputs(model, kind) if FREE in forms else None) or [None] * len(heads)
    sums: list[dict[str, Tensor]] = [{} for _ in heads]

    def keep(batch: Batch) -> Keep:
        def add(_: Kind, layer: int, point: Point, value: Tensor) -> None:
            found = _sums(point, value, batch, kind, heads[layer], outputs[layer])
            for name, each in found:
                sums[layer][name] = sums[layer].get(name, 0) + each

        return add

    read = recordings(model, batches, POINTS, training=training, kinds=[kind], keep=keep)
    tokens, sentences = 0, 0
    for _, batch in read:
        real = tokens_of(batch, kind, Point.CONTEXT).sum(1)
        tokens, sentences = tokens + real.double().sum(), sentences + (real > 1).double().sum()
    layers = [dict(_metrics(own, tokens, sentences)) for own in sums]
    names = [name for name in dict.fromkeys(chain(*layers)) if name[1] in forms]
    return {name: stacked([own.get(name) for own in layers]) for name in names}


def _outputs(model: Capturable, kind: Kind) -> Parts | None:
    """W_O by head; None where the output projection of a block is out of reach."""
    try:
        return output_parts(model, kind)
    except UserError:
        return None


def _sums(
    point: Point, value: Tensor, batch: Batch, kind: Kind, heads: int, output: Tensor | None
) -> Iterator[tuple[str, Tensor]]:
    """What a batch adds to the sums of one layer, by name, from what stands at one point of it."""
    tokens = tokens_of(batch, kind, Point.CONTEXT)
    if point in (Point.QUERIES, Point.CONTEXT):
        yield point, products(value, tokens)
    if point is Point.CONTEXT and output is not None:
        true = torch.einsum("bhtd,hdm->bhtm", value, output.to(value))
        yield "outputs", cosines(true, tokens)
    if point is Point.OUTPUT and value.shape[-1] % heads == 0:  # else there are no such slices
        slices = value.unflatten(-1, (heads, -1)).transpose(1, 2)
        yield "slices", cosines(slices, tokens)
    if point is Point.WEIGHTS:
        several = tokens.sum(1) > 1
        keys = counted_keys(batch, kind, boundary=True)[several].double().sum(1)[:, None]
        spread, most = variance(counted_maps(value, batch, kind)[several], tokens[several])
        share = torch.where(most > EPSILON, spread / most.clamp(min=EPSILON), 0.0)
        yield "variance", (spread / keys).sum(0)
        yield "dependence", share.sum(0)


def _metrics(
    sums: Mapping[str, Tensor], tokens: Tensor, sentences: Tensor
) -> Iterator[tuple[tuple[str, str], Tensor]]:
    if Point.QUERIES in sums:
        entries = sums[Point.QUERIES].abs().sum((-2, -1))
        yield (ORTHOGONALITY, RAW), without_diagonal(entries)
        yield (ORTHOGONALITY, FREE), alignment(sums[Point.QUERIES])
    if Point.CONTEXT in sums:
        norms = torch.linalg.matrix_norm(sums[Point.CONTEXT])
        yield (NON_ORTHOGONALITY, RAW), without_diagonal(norms)
        yield (NON_ORTHOGONALITY, FREE), alignment(sums[Point.CONTEXT])
    for name, form in (("slices", RAW), ("outputs", FREE)):
        if name in sums:
            yield (DISSIMILARITY, form), -without_diagonal(sums[name] / tokens)
    for name, form in (("variance", RAW), ("dependence", FREE)):
        if name in sums:
            yield (ATTENTION, form), sums[name] / sentences
