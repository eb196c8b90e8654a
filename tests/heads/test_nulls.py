"""Null networks: nothing known, nothing left behind, and far below a head that does something."""

import torch
from blocks import tiny
from torch import nn

from headbook.heads.nulls import Null, without_knowledge


def test_matrices_are_drawn_with_their_mean_and_spread_and_a_seed_decides() -> None:
    """That they are permuted or drawn, and vectors stay, is tried by looking/test_close.py."""
    model = tiny(1, width=32, feed_forward=48).to(torch.bfloat16)

    def drawn(seed: int) -> list[torch.Tensor]:
        with without_knowledge(model, Null.DRAWN, seed):
            return [each.detach().clone() for each in model.parameters()]

    first, again, other = drawn(3), drawn(3), drawn(4)
    assert all(map(torch.equal, first, again)) and not all(map(torch.equal, first, other))
    for own, found in zip(model.parameters(), first, strict=True):
        assert found.dtype == torch.bfloat16
        one, two = own.float(), found.float()
        if own.ndim > 1:
            assert abs(one.mean() - two.mean()) < 5 * one.std() / one.numel() ** 0.5
            assert torch.isclose(one.std(), two.std(), rtol=0.2)


def test_tied_parameters_stay_tied() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    with without_knowledge(model, Null.DRAWN, 0):
        assert torch.equal(model[0].weight, model[1].weight)
