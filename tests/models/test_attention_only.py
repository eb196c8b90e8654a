"""A network of attention and skips is the sum of its paths."""

from itertools import product

import pytest
import torch

from headbook.models.attention_only import SKIP, AttentionOnly
from headbook.types import UserError

LENGTHS = (1, 2, 9, 33)


def network(time: int = 5, heads: int = 2, layers: int = 3) -> AttentionOnly:
    torch.manual_seed(0)
    return AttentionOnly(4, 3, time, 8, heads, layers).double()


def inputs(time: int = 5) -> torch.Tensor:
    return torch.randn(2, time, 4, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("time", LENGTHS)
def test_parts_by_length_add_up_to_the_network(time: int):
    model = network(time)
    parts = model.by_length(inputs(time))
    assert torch.allclose(parts.sum(0), model.states(inputs(time)), atol=1e-12)
    assert torch.equal(parts[0], model.embedded(inputs(time)))


def test_a_part_is_the_sum_over_its_paths():
    """Every path multiplied out: A_h X W_h in the layers where it takes a head."""
    model, given = network(), inputs()
    states, weights = model.embedded(given), []
    for layer in model.layers:
        weights.append(layer.weights(states))
        states = states + layer.apply_weights(weights[-1], states)
    sums = [torch.zeros_like(states) for _ in range(4)]
    for path in product((SKIP, 0, 1), repeat=3):
        state = model.embedded(given)
        for layer, held, head in zip(model.layers, weights, path, strict=True):
            if head != SKIP:
                own = slice(4 * head, 4 * head + 4)
                value, out = layer.value.weight[own], layer.out.weight[:, own]
                state = held[:, head] @ state @ value.T @ out.T
        sums[sum(head != SKIP for head in path)] += state
    assert torch.allclose(torch.stack(sums), model.by_length(given), atol=1e-12)


def test_paths_along_one_layer_are_those_with_weights_held():
    """In a network of one layer, what arrives on the path is what the network has there."""
    model, given = network(layers=1), inputs()
    alone = sum(model.along(given, [head]) for head in (0, 1))
    assert torch.allclose(alone, model.by_length(given)[1], atol=1e-12)
    assert torch.equal(model.along(given, [SKIP]), model.embedded(given))


def test_weights_of_a_path_are_computed_from_the_path():
    model, given = network(layers=2), inputs()
    first = model.along(given, [0, SKIP])
    second = model.layers[1]
    wanted = second.apply_weights(second.weights(first), first, 1)
    assert torch.equal(model.along(given, [0, 1]), wanted)


def test_a_width_that_no_head_divides_is_refused():
    with pytest.raises(UserError, match="no multiple of 3 heads"):
        AttentionOnly(4, 3, 5, 8, 3, 1)
