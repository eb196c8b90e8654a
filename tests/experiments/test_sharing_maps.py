"""Sharing maps: who is grouped with whom, and a model whose heads are twins."""

import numpy as np
import torch

from headbook.experiments.sharing_maps import alike, at_random, mixing, redundant, sharing
from headbook.looking.effects import effects
from headbook.looking.load import load
from headbook.models.gates import all_heads, closed
from headbook.types import HeadId, Kind

LAYERS = np.array([0, 0, 0, 1, 1, 1])
HEADS = [HeadId(Kind.ENCODER, int(layer), at % 3) for at, layer in enumerate(LAYERS)]
DISTANCES = np.array([
    [0, 1, 4, 0.1, 5, 5], [1, 0, 5, 5, 5, 5], [4, 5, 0, 5, 5, 5],
    [0.1, 5, 5, 0, 3, 7], [5, 5, 5, 3, 0, 2], [5, 5, 5, 7, 2, 0],
])  # fmt: skip


def test_the_closest_heads_of_one_layer_are_joined_first() -> None:
    """Heads 0 and 3 are nearest of all and stay apart: they are of different layers."""
    assert alike(DISTANCES, LAYERS, 0) == [[0], [1], [2], [3], [4], [5]]
    assert alike(DISTANCES, LAYERS, 1) == [[0, 1], [2], [3], [4], [5]]
    assert alike(DISTANCES, LAYERS, 2) == [[0, 1], [2], [3], [4, 5]]
    # average linkage: 2 is 4.5 from {0, 1}, 3 is 5 from {4, 5}
    assert alike(DISTANCES, LAYERS, 3) == [[0, 1, 2], [3], [4, 5]]
    assert alike(DISTANCES, LAYERS, 4) == [[0, 1, 2], [3, 4, 5]]


def test_random_groups_are_as_many_and_as_large_in_every_layer() -> None:
    groups = alike(DISTANCES, LAYERS, 3)
    drawn = [at_random(groups, LAYERS, np.random.default_rng(seed)) for seed in range(9)]
    for each in drawn:
        assert sorted(head for group in each for head in group) == [0, 1, 2, 3, 4, 5]
        layers = sorted([LAYERS[head] for head in group] for group in each)
        assert layers == [[0, 0, 0], [1], [1, 1]]
    assert len({str(each) for each in drawn}) > 1


def test_the_head_in_the_middle_of_a_group_stays() -> None:
    assert redundant([[0, 1, 2], [3, 4, 5]], DISTANCES) == [1, 2, 3, 5]


def test_a_group_has_the_mean_map() -> None:
    found = mixing([[0, 2], [1], [3], [4], [5]], HEADS)
    torch.testing.assert_close(found[0], torch.tensor([[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]))
    torch.testing.assert_close(found[1], torch.eye(3))


def test_twins_share_their_map_at_no_cost() -> None:
    model = load("firefox-en-pt")
    block = next(block for _, layer, block in model.network.attentions() if layer == 0)
    for part in (block.query, block.key):
        width = part.weight.shape[0] // block.heads
        with torch.no_grad():
            part.weight[width : 2 * width] = part.weight[:width]
            part.bias[width : 2 * width] = part.bias[:width]
    heads = [each for each in all_heads(model.network) if each.kind is Kind.ENCODER]
    ways = [
        lambda: sharing(model.network, [[0, 1]], heads),
        lambda: closed(model.network, [heads[1]]),
    ]
    batches = model.batches(["The cat sat on the mat .", "Where did all of the heads go ?"])
    shared, removed = effects(model, batches, ways).added.abs().amax(1)
    assert shared < 1e-4 < removed
