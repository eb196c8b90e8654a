"""Shares of singular values with known answers."""

import pytest
import torch

from headbook.layers.spectrum import cumulative, rank_share, without_first


def test_known_matrices():
    uniform = torch.full((4, 4), 0.25)
    assert rank_share(uniform).item() == 0.25
    assert rank_share(torch.eye(10), 0.9).item() == pytest.approx(0.9)
    torch.testing.assert_close(
        cumulative(torch.diag(torch.tensor([3.0, 1.0, 0.0]))), torch.tensor([0.75, 1, 1]).double()
    )


def test_the_largest_part_is_taken_away_and_nothing_else():
    weights = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
    left = torch.linalg.svdvals(without_first(weights))
    torch.testing.assert_close(left[:, :5], torch.linalg.svdvals(weights.double())[:, 1:])
    assert left[:, 5].max() < 1e-12
