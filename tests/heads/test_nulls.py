"""Null networks: nothing known, nothing left behind, and far below a head that does something."""

import pytest
import torch
from blocks import tiny
from torch import nn

from headbook.heads.nulls import Null, without_knowledge
from headbook.models.transformer import Transformer


@pytest.fixture
def model() -> Transformer:
    size = {"source_vocabulary": 1000, "target_vocabulary": 1000, "width": 32, "feed_forward": 48}
    return tiny(1, torch.float32, **size)


def copies(model: nn.Module) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def weights_as(model: nn.Module, null: Null, seed: int) -> list[torch.Tensor]:
    with without_knowledge(model, null, seed):
        return copies(model)


@pytest.mark.parametrize("null", list(Null))
def test_matrices_are_permuted_or_drawn_and_vectors_stay(model, null) -> None:
    own, changed = copies(model), weights_as(model, null, 0)
    for one, other in zip(own, changed, strict=True):
        if one.ndim < 2:
            assert torch.equal(one, other)
        elif null is Null.PERMUTED:
            assert torch.equal(one.flatten().sort().values, other.flatten().sort().values)
            assert (one == other).float().mean() < 0.05
        else:
            assert torch.isin(one, other).float().mean() < 0.05
            assert abs(one.mean() - other.mean()) < 5 * one.std() / one.numel() ** 0.5
            assert torch.isclose(one.std(), other.std(), rtol=0.15)


@pytest.mark.parametrize("null", list(Null))
def test_a_seed_decides_and_types_stay(model, null) -> None:
    model.to(torch.bfloat16)
    first, again, other = (weights_as(model, null, seed) for seed in (3, 3, 4))
    assert all(map(torch.equal, first, again)) and first[0].dtype == torch.bfloat16
    assert not all(map(torch.equal, first, other))


def test_tied_parameters_stay_tied() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    with without_knowledge(model, Null.DRAWN, 0):
        assert torch.equal(model[0].weight, model[1].weight)
