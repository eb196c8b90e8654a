"""A network of attention and skips is the sum of its paths."""

from itertools import product

import torch
from blocks import drawn

from headbook.models.attention_only import SKIP, AttentionOnly


def network(layers: int = 3) -> AttentionOnly:
    torch.manual_seed(0)
    return AttentionOnly(4, 3, 5, 8, 2, layers).double()


def test_a_part_is_the_sum_over_its_paths_and_parts_add_up_to_the_network():
    """Every path multiplied out: A_h X W_h in the layers where it takes a head."""
    model, given = network(), drawn(2, 5, 4)
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
    parts = model.by_length(given)
    assert torch.allclose(torch.stack(sums), parts, atol=1e-12)
    assert torch.allclose(parts.sum(0), model.states(given), atol=1e-12)


def test_along_a_path_weights_are_computed_from_what_arrives_on_it():
    model, given = network(layers=2), drawn(2, 5, 4)
    first, second = model.along(given, [0, SKIP]), model.layers[1]
    wanted = second.apply_weights(second.weights(first), first, 1)
    assert torch.equal(model.along(given, [0, 1]), wanted)
