"""Asymmetry of matrices whose asymmetry is known."""

import pytest
import torch

from headbook.heads import planted
from headbook.heads.positional import PositionalShare
from headbook.heads.symmetry import (
    Part,
    PartPositionalShare,
    TokenAsymmetry,
    asymmetry,
    part_of,
    projection_asymmetry,
)
from headbook.models.capture import Point
from headbook.types import Kind, UserError


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def test_known_matrices() -> None:
    matrix = drawn(50, 50)
    assert asymmetry(matrix + matrix.mT) == 0
    assert asymmetry(matrix - matrix.mT) == 1
    assert asymmetry(torch.zeros(3, 3)).isnan()
    assert asymmetry(torch.tensor([[0.0, 1.0], [0.0, 0.0]])) == pytest.approx(0.5)


def test_independent_entries_give_a_half() -> None:
    size = 40
    mean = asymmetry(drawn(200, size, size)).mean()
    assert abs(float(mean) - (size - 1) / (2 * size)) < 0.005


def test_scale_and_transposition_change_nothing() -> None:
    matrix = drawn(7, 7)
    assert torch.allclose(asymmetry(-3 * matrix), asymmetry(matrix))
    assert torch.allclose(asymmetry(matrix.mT), asymmetry(matrix))


def test_tied_projections_are_symmetric_and_free_ones_are_not() -> None:
    query, key = drawn(2, 4, 32, 8), drawn(2, 4, 32, 8).flip(0)
    assert torch.allclose(
        projection_asymmetry(query, query), torch.zeros(2, 4).double(), atol=1e-12
    )
    free = projection_asymmetry(query, key)
    assert free.shape == (2, 4) and ((free > 0.4) & (free < 0.6)).all()


def test_tokens_of_known_heads(corpus) -> None:
    batch = corpus.batch(list(range(10)))
    heads = [planted.uniform(batch), planted.at_offset(batch, 0), planted.at_offset(batch, 1)]
    measure = TokenAsymmetry(Point.WEIGHTS)
    measure.update(planted.recording(heads), batch)
    # a shift and its transpose share no entry: half of the energy is antisymmetric
    assert torch.allclose(measure.compute()[0], torch.tensor([0, 0, 0.5]).double(), atol=1e-6)


def test_scores_may_be_masked_with_minus_infinity(corpus) -> None:
    batch = corpus.batch([0, 1, 2])
    size = batch.source.shape[1]
    scores = drawn(3, 1, size, size)
    masked = scores.masked_fill(~batch.source_mask[:, None, None], -torch.inf)
    measure = TokenAsymmetry()
    measure.update({(Kind.ENCODER, Point.SCORES): [masked]}, batch)
    inner = [scores[row, 0, :end, :end] for row, end in enumerate(batch.source_mask.sum(1) - 1)]
    assert torch.allclose(measure.compute(), torch.stack([*map(asymmetry, inner)]).mean())


def test_single_tokens_say_nothing(ladder) -> None:
    batch = ladder.batch([0, 1])
    measure = TokenAsymmetry(Point.WEIGHTS)
    measure.update(planted.recording([planted.uniform(batch)]), batch)
    assert measure.compute().isnan()


def test_other_points_are_refused() -> None:
    with pytest.raises(UserError, match="values"):
        TokenAsymmetry(Point.VALUES)


def test_parts_add_up_and_are_what_they_are_called() -> None:
    matrix = drawn(3, 6, 6)
    symmetric, other = part_of(matrix, Part.SYMMETRIC), part_of(matrix, Part.ANTISYMMETRIC)
    assert torch.allclose(symmetric + other, matrix)
    assert torch.equal(symmetric, symmetric.mT) and torch.equal(other, -other.mT)


def test_what_all_tokens_share_does_not_hide_a_centred_asymmetry(corpus) -> None:
    """A large constant makes any matrix nearly symmetric; without row and column means it is
    gone, wherever the padding is, and a symmetric matrix stays symmetric."""
    batch = corpus.batch([0, 1, 2])
    size = batch.source.shape[1]
    scores = drawn(3, 1, size, size)
    mirrored = scores + scores.mT
    found = {}
    for name, matrix in (("free", scores), ("shifted", scores + 1e4), ("mirrored", mirrored)):
        measure = TokenAsymmetry(centred=True)
        measure.update({(Kind.ENCODER, Point.SCORES): [matrix]}, batch)
        found[name] = float(measure.compute())
    assert found["shifted"] == pytest.approx(found["free"], abs=1e-6)
    assert found["free"] > 0.2 and found["mirrored"] < 1e-12
    plain = TokenAsymmetry()
    plain.update({(Kind.ENCODER, Point.SCORES): [scores + 1e4]}, batch)
    assert float(plain.compute()) < 1e-6


def test_a_head_that_looks_back_cannot_without_its_antisymmetric_part(corpus) -> None:
    batch = corpus.batch(list(range(10)))
    size = batch.source.shape[1]
    distance = torch.arange(size)[:, None] - torch.arange(size)
    scores = -(distance.double() ** 2) - 4 * (distance == 0) + 0.5 * distance
    tape = {(Kind.ENCODER, Point.SCORES): [scores.expand(10, 1, size, size)]}
    shares = {}
    for part in Part:
        measure = PartPositionalShare(part, replicates=0)
        measure.update(tape, batch)
        shares[part] = measure.compute()[0, 0]
    whole = PositionalShare(Kind.ENCODER, replicates=0)
    real = scores.masked_fill(~batch.source_mask[:, None, None], -torch.inf).softmax(-1)
    whole.update({(Kind.ENCODER, Point.WEIGHTS): [real]}, batch)
    back = 4  # offset -1
    assert whole.compute()[0, 0, back] == 1
    assert shares[Part.SYMMETRIC][back] < 0.5  # both neighbours score the same
    assert shares[Part.ANTISYMMETRIC][back] < 0.5  # the farthest before scores most
