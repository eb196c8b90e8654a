"""Page 55: distances of known maps."""

import pytest
import torch

from headbook.experiments.pixels import distance


def test_distances_of_known_maps():
    own = torch.eye(64).expand(2, 1, 64, 64)
    assert distance(own).item() == 0
    neighbour = torch.zeros(1, 1, 64, 64)
    for pixel in range(64):  # beside each other in a row
        neighbour[0, 0, pixel, pixel + 1 if pixel % 8 < 7 else pixel - 1] = 1
    assert distance(neighbour).item() == pytest.approx(1)
    below = torch.zeros(1, 1, 64, 64)
    below[0, 0, torch.arange(64), (torch.arange(64) + 16) % 64] = 1
    assert distance(below).item() == pytest.approx((48 * 2 + 16 * 6) / 64)
