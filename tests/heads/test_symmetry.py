"""Asymmetry of matrices whose asymmetry is known."""

import known_heads as planted
import pytest
import torch

from headbook.heads.symmetry import TokenAsymmetry, asymmetry
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
