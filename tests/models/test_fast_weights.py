"""Feature maps of linear attention by hand, and where they end."""

import torch
from blocks import drawn

from headbook.models.fast_weights import dpfp, favor, orthogonal_directions


def test_dpfp_by_hand():
    x = torch.tensor([2.0, -3.0])
    # r = (2, 0, 0, 3)
    torch.testing.assert_close(dpfp(x), torch.tensor([6.0, 0.0, 0.0, 0.0]))


def test_favor_estimates_the_exponential_and_its_weights_the_softmax():
    queries, keys = drawn(5, 8) / 2, drawn(6, 8, seed=1) / 2
    scaled = [each * 8**-0.25 for each in (queries, keys)]
    features = [favor(each, orthogonal_directions(20_000, 8, 0)) for each in scaled]
    softmax = (queries @ keys.mT * 8**-0.5).softmax(-1)
    alike = features[0] @ features[1].mT
    torch.testing.assert_close(alike / alike.sum(-1, keepdim=True), softmax, atol=0.02, rtol=0.0)


def test_directions_are_orthogonal_within_a_block():
    first = orthogonal_directions(6, 4, 0)[:4]
    products = first @ first.mT
    torch.testing.assert_close(products, products.diagonal().diag())
