"""The small vision transformer: distances that are known, and pixels whose order counts."""

import pytest
import torch

from headbook.models.capture import Point, capture
from headbook.models.pixels import PixelEncoder, attention_distance
from headbook.types import Kind


def test_distances_of_known_maps():
    own = torch.eye(64).expand(2, 1, 64, 64)
    assert attention_distance(own).item() == 0
    neighbour = torch.zeros(1, 1, 64, 64)
    for pixel in range(64):  # beside each other in a row
        neighbour[0, 0, pixel, pixel + 1 if pixel % 8 < 7 else pixel - 1] = 1
    assert attention_distance(neighbour).item() == pytest.approx(1)
    below = torch.zeros(1, 1, 64, 64)
    below[0, 0, torch.arange(64), (torch.arange(64) + 16) % 64] = 1
    assert attention_distance(below).item() == pytest.approx((48 * 2 + 16 * 6) / 64)


def test_weights_can_be_captured_and_sum_to_one():
    torch.manual_seed(0)
    model, images = PixelEncoder(), torch.rand(3, 64)
    with torch.no_grad(), capture(model, {Point.WEIGHTS}) as tape:
        assert model(images).shape == (3, 10)
    maps = tape[Kind.ENCODER, Point.WEIGHTS]
    assert len(maps) == 3 and maps[0].shape == (3, 4, 64, 64)
    torch.testing.assert_close(maps[1].sum(-1), torch.ones(3, 4, 64))
    assert not model(images).allclose(model(images.flip(1)), atol=1e-3)
