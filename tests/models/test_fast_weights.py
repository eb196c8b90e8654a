"""Fast weights: the identity with linear attention, the delta rule by hand, the feature maps."""

from functools import partial

import pytest
import torch

from headbook.models.fast_weights import (
    delta_memory,
    dpfp,
    elu_plus_one,
    favor,
    kernel_weights,
    linear_attention,
    orthogonal_directions,
    sum_memory,
)
from headbook.types import UserError

DIM = 4
LENGTHS = (1, 2, 9, 33, 129)
MAPS = {
    "ELU + 1": elu_plus_one,
    "DPFP-1": dpfp,
    "DPFP-3": partial(dpfp, nu=3),
    "FAVOR+": partial(favor, directions=orthogonal_directions(10, DIM, 0)),
}


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sequences(length: int) -> list[torch.Tensor]:
    return [drawn(2, 3, length, DIM, seed=seed) for seed in range(3)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", MAPS)
def test_the_recurrent_form_equals_the_quadratic_one(name, length):
    queries, keys, values = sequences(length)
    # DPFP can be zero for a random query and key; a constant keeps the sums away from it
    queries, keys = (MAPS[name](each) + 1e-3 for each in (queries, keys))
    torch.testing.assert_close(
        sum_memory(queries, keys, values), linear_attention(queries, keys, values),
        rtol=1e-10, atol=1e-10,
    )  # fmt: skip


@pytest.mark.parametrize("length", LENGTHS)
def test_linear_attention_by_loops(length):
    queries, keys, values = (each[0, 0] for each in sequences(length))
    queries, keys = elu_plus_one(queries), elu_plus_one(keys)
    found = linear_attention(queries, keys, values)
    for i in range(length):
        weights = [float(queries[i] @ keys[j]) for j in range(i + 1)]
        wanted = sum(w * values[j] for j, w in enumerate(weights)) / sum(weights)
        torch.testing.assert_close(found[i], wanted)


def test_a_later_position_changes_nothing_before_it():
    queries, keys, values = sequences(9)
    changed = [each.clone() for each in (keys, values)]
    for each in changed:
        each[..., -1, :] += 3
    strengths = torch.full((2, 3, 9), 0.5, dtype=torch.float64)
    for memory in (sum_memory, partial(delta_memory, strengths=strengths)):
        first = memory(*map(elu_plus_one, (queries, keys)), values)
        second = memory(elu_plus_one(queries), elu_plus_one(changed[0]), changed[1])
        torch.testing.assert_close(first[..., :-1, :], second[..., :-1, :])
        assert not torch.allclose(first[..., -1, :], second[..., -1, :])


@pytest.mark.parametrize("length", LENGTHS)
def test_the_delta_rule_by_its_closed_form(length):
    """W_i = W_{i-1}(I − β φ φᵀ) + β v φᵀ, multiplied out."""
    queries, keys, values = (each[0, 0] for each in sequences(length))
    queries, keys = elu_plus_one(queries), elu_plus_one(keys)
    strengths = drawn(length, seed=7).sigmoid()
    found = delta_memory(queries, keys, values, strengths)
    memory = torch.zeros(DIM, DIM, dtype=torch.float64)
    for i in range(length):
        key = keys[i] / keys[i].sum()
        memory = memory @ (torch.eye(DIM).double() - strengths[i] * torch.outer(key, key))
        memory = memory + strengths[i] * torch.outer(values[i], key)
        torch.testing.assert_close(found[i], memory @ (queries[i] / queries[i].sum()))


def test_a_key_written_again_gives_the_mean_by_the_sum_and_the_last_by_the_delta_rule():
    keys = torch.eye(DIM, dtype=torch.float64)[[0, 1, 0, 0]]
    values = drawn(4, DIM)
    ones = torch.ones(4, dtype=torch.float64)
    torch.testing.assert_close(sum_memory(keys, keys, values)[-1], values[[0, 2, 3]].mean(0))
    torch.testing.assert_close(delta_memory(keys, keys, values, ones)[-1], values[-1])
    torch.testing.assert_close(delta_memory(keys, keys, values, ones)[1], values[1])


def test_dpfp_by_hand():
    x = torch.tensor([2.0, -3.0])
    # r = (2, 0, 0, 3)
    torch.testing.assert_close(dpfp(x), torch.tensor([6.0, 0.0, 0.0, 0.0]))
    assert dpfp(x, 3).shape == (12,)
    for nu in (0, 4):
        with pytest.raises(UserError, match="give 1 to 3"):
            dpfp(x, nu)


def test_favor_estimates_the_exponential_and_its_weights_the_softmax():
    queries, keys = drawn(5, 8) / 2, drawn(6, 8, seed=1) / 2
    scaled = [each * 8**-0.25 for each in (queries, keys)]
    features = [favor(each, orthogonal_directions(200_000, 8, 0)) for each in scaled]
    torch.testing.assert_close(features[0] @ features[1].mT, (scaled[0] @ scaled[1].mT).exp(),
                               rtol=0.1, atol=0.0)  # fmt: skip
    softmax = (queries @ keys.mT * 8**-0.5).softmax(-1)
    torch.testing.assert_close(kernel_weights(*features), softmax, atol=0.02, rtol=0.0)


def test_directions_are_orthogonal_within_a_block():
    first = orthogonal_directions(6, 4, 0)[:4]
    products = first @ first.mT
    torch.testing.assert_close(products, products.diagonal().diag())


def test_favor_loses_long_keys_in_32_bits():
    """exp(−|x|²/2) is zero there: a row without any weight is not a number, and says so."""
    keys = torch.full((1, 3, 8), 8.0)
    features = favor(keys, orthogonal_directions(16, 8, 0, torch.float32) / 100)
    assert kernel_weights(features, features).isnan().all()
    wider = [each.double() for each in (keys, orthogonal_directions(16, 8, 0) / 100)]
    assert kernel_weights(*[favor(*wider)] * 2).isfinite().all()
