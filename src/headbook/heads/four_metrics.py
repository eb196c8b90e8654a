"""The X-raying article's four metrics together, each raw and scale-free, for one kind of attention.

Raw orthogonality grows with the tokens, the width of a head and the variance of what is measured;
the raw variance of weights falls with the square of the length. The scale-free forms do neither.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

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
from headbook.models.capture import Capturable, Point, Tape, capture
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
article's notebook takes for these, though the output projection has mixed all heads."""
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

    Metrics whose vectors the model does not record are left out, as are true outputs where there is
    no output projection to compute them with. UserError where there is no batch.
    """
    if not batches:
        raise UserError("no text to measure diversity on: give at least one segment")
    device, before = next(model.parameters()).device, model.training
    outputs, sums = _outputs(model, kind) if FREE in forms else None, {}
    model.train(training)
    try:
        for batch in batches:
            moved = batch.to(device)
            with torch.inference_mode(), capture(model, POINTS, [kind]) as tape:
                model(moved)
                for name, each in _sums(tape, moved, kind, outputs):
                    sums[name] = sums[name] + each if name in sums else each
    finally:
        model.train(before)
    return {name: each for name, each in _metrics(sums) if name[1] in forms}


def _outputs(model: Capturable, kind: Kind) -> Parts | None:
    """W_O by head; None where the output projection of a block is out of reach."""
    try:
        return output_parts(model, kind)
    except UserError:
        return None


def _sums(
    tape: Tape, batch: Batch, kind: Kind, outputs: Parts | None
) -> Iterator[tuple[str, Tensor]]:
    """What a batch adds to the sums of every layer, by name, and the tokens and sentences."""
    tokens = tokens_of(batch, kind, Point.CONTEXT)
    layers = {point: tape[kind, point] for point in POINTS if (kind, point) in tape}
    yield "tokens", tokens.double().sum()
    for point in layers.keys() & {Point.QUERIES, Point.CONTEXT}:
        yield point, torch.stack([products(each, tokens) for each in layers[point]])
    if outputs is not None and Point.CONTEXT in layers:
        pairs = zip(layers[Point.CONTEXT], outputs, strict=True)
        true = (torch.einsum("bhtd,hdm->bhtm", each, part.to(each)) for each, part in pairs)
        yield "outputs", torch.stack([cosines(each, tokens).sum(0) for each in true])
    if Point.WEIGHTS not in layers:
        return
    heads = layers[Point.WEIGHTS][0].shape[1]
    if Point.OUTPUT in layers:
        slices = (each.unflatten(-1, (heads, -1)).transpose(1, 2) for each in layers[Point.OUTPUT])
        yield "slices", torch.stack([cosines(each, tokens).sum(0) for each in slices])
    several = tokens.sum(1) > 1
    keys = counted_keys(batch, kind, boundary=True)[several].double().sum(1)[:, None]
    maps = (counted_maps(each, batch, kind)[several] for each in layers[Point.WEIGHTS])
    found = [variance(each, tokens[several]) for each in maps]
    shares = [torch.where(most > EPSILON, spread / most.clamp(min=EPSILON), 0.0)
              for spread, most in found]  # fmt: skip
    yield "variance", torch.stack([(spread / keys).sum(0) for spread, _ in found])
    yield "dependence", torch.stack([share.sum(0) for share in shares])
    yield "sentences", several.double().sum()


def _metrics(sums: Mapping[str, Tensor]) -> Iterator[tuple[tuple[str, str], Tensor]]:
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
            yield (DISSIMILARITY, form), -without_diagonal(sums[name] / sums["tokens"])
    for name, form in (("variance", RAW), ("dependence", FREE)):
        if name in sums:
            yield (ATTENTION, form), sums[name] / sums["sentences"]
