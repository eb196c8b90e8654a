"""Bytes held at once, where they can be counted by hand."""

import torch

from headbook.experiments.costs import peak_bytes


def test_peak_bytes_are_those_held_at_once():
    given = torch.randn(100, 100)
    assert peak_bytes(lambda: [(given + given).numel() for _ in range(3)]) == 40_000
    assert peak_bytes(lambda: [given + given for _ in range(3)]) == 120_000
