"""Bytes kept for the way back, where they can be counted by hand."""

import torch

from headbook.models.kept_bytes import kept_bytes


def test_a_product_keeps_both_factors_and_views_count_once():
    first, second = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    assert kept_bytes(lambda: first * second) == 2 * 3 * 5 * 4
    assert kept_bytes(lambda: (first * second).sum() + (first.T * second.T).sum()) == 2 * 3 * 5 * 4


def test_without_gradients_nothing_is_kept_and_a_sum_needs_nothing():
    first = torch.randn(3, 5, requires_grad=True)
    with torch.no_grad():
        assert kept_bytes(lambda: first * first) == 0
    assert kept_bytes(lambda: first + 1) == 0
    assert kept_bytes(lambda: first.exp()) == 3 * 5 * 4  # its result
