"""Page 55: the small vision transformer learns, and distances of known maps are known."""

import pytest
import torch

from headbook.experiments.pixels import PixelEncoder, digits, distance, train


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


def test_it_learns():
    images, labels = digits()
    assert images.shape == (1797, 64) and images.min() == 0 and images.max() == 1
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = PixelEncoder(layers=1)
        train(model, images[:256], labels[:256], epochs=25)
    with torch.no_grad():
        right = model(images[:256]).argmax(1) == labels[:256]
    assert right.float().mean() > 0.25  # chance is 0.1
