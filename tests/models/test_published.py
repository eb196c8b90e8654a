"""The article's decoder: its parameters, its scores, and its mask, which nothing else may have."""

import pytest
import torch
from blocks import ragged

from headbook.models.capture import Point, capture
from headbook.models.published import PublishedTransformer
from headbook.types import Kind


def test_it_has_the_parameters_of_the_notebook():
    model = PublishedTransformer(5002, 6, 128, 512, 8, 0.1)
    assert sum(each.numel() for each in model.parameters()) == 2_472_842


@pytest.mark.parametrize("length", [3, 33])
def test_its_positions_see_what_comes_after_them(length):
    published = PublishedTransformer(13, 2, 16, 24, 4, 0.0).double().eval()
    with capture(published, {Point.WEIGHTS}) as tape:
        published.decode(ragged([1], [length]).target_out, None, None)
    for weights in tape[Kind.DECODER, Point.WEIGHTS]:
        assert torch.equal(weights[:, :, :-1], weights[:, :, :-1].triu(1))
        assert torch.allclose(weights[:, :, -1], torch.full_like(weights[:, :, -1], 1 / length))
