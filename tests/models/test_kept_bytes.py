"""Bytes kept for the way back, and held at once, where they can be counted by hand."""

import torch

from headbook.models.kept_bytes import kept_bytes
from headbook.models.peak_bytes import peak_bytes


def test_a_product_keeps_both_factors_and_views_count_once():
    first, second = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    assert kept_bytes(lambda: (first * second).sum() + (first.T * second.T).sum()) == 2 * 3 * 5 * 4
    assert kept_bytes(lambda: first + 1) == 0
    assert kept_bytes(lambda: first.exp()) == 3 * 5 * 4  # its result


def test_peak_bytes_are_those_held_at_once():
    given = torch.randn(100, 100)
    assert peak_bytes(lambda: [(given + given).numel() for _ in range(3)]) == 40_000
    assert peak_bytes(lambda: [given + given for _ in range(3)]) == 120_000
