"""The residual of known matrices, the norm by hand, and the counts of paths."""

import pytest
import torch

from headbook.layers.collapse import composite_norm, paths, residual_ratio


def test_equal_tokens_have_no_residual_and_centred_ones_nothing_else():
    row = torch.tensor([[1.0, -2.0, 3.0]])
    assert residual_ratio(row.expand(5, -1)) == pytest.approx(0, abs=1e-12)
    assert residual_ratio(torch.cat([row, -row])) == pytest.approx(1)


def test_the_ratio_does_not_see_scale_and_falls_with_a_common_part():
    states = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert residual_ratio(7 * states) == pytest.approx(residual_ratio(states))
    assert residual_ratio(states + 10) < residual_ratio(states + 1) < 1


def test_the_norm_by_hand():
    matrix = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    assert composite_norm(matrix) == pytest.approx((6 * 7) ** 0.5)  # columns 4, 6; rows 3, 7


def test_paths_by_hand():
    torch.testing.assert_close(paths(2, 3), torch.tensor([1, 6, 9]).double() / 16)
    assert paths(96, 96).sum() == pytest.approx(1)
