"""Rollout and flow on graphs small enough to follow by hand."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
import torch

from headbook.layers.flow import FlowNetwork
from headbook.layers.rollout import mixing, rollout, translating

FIRST = torch.tensor([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], dtype=torch.float64)
SECOND = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.7, 0.3], [0.2, 0.2, 0.6]], dtype=torch.float64)


def drawn(tokens: int, layers: int, seed: int) -> list[torch.Tensor]:
    """Layers of random weights with some edges left out."""
    generator = torch.Generator().manual_seed(seed)
    shape = (layers, tokens, tokens)
    weights = torch.rand(shape, generator=generator, dtype=torch.float64)
    weights *= torch.rand(shape, generator=generator) > 0.3
    weights += torch.eye(tokens, dtype=torch.float64) * 0.1
    return list(weights / weights.sum(-1, keepdim=True))


def cut(layers: list[torch.Tensor], query: int, token: int) -> float:
    """The smallest cut, over every set of nodes that may stay on the query's side."""
    size, count = len(layers[0]), len(layers)
    weights = [layer.tolist() for layer in layers]
    inner = list(product(range(1, count), range(size)))
    edges = [(at, above, below) for at in range(count)
             for above, below in product(range(size), repeat=2)]  # fmt: skip
    smallest = float("inf")
    for chosen in product((False, True), repeat=len(inner)):
        kept = {place for place, side in zip(inner, chosen, strict=True) if side} | {(count, query)}
        # Other inputs lead nowhere: they may stay on the query's side, which costs nothing.
        kept |= {(0, other) for other in range(size) if other != token}
        total = sum(weights[at][above][below] for at, above, below in edges
                    if (at + 1, above) in kept and (at, below) not in kept)  # fmt: skip
        smallest = min(smallest, total)
    return smallest


def test_mixing_is_half_the_mean_of_the_heads_and_half_the_skip():
    heads = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    assert mixing(heads).tolist() == [[0.75, 0.25], [0.25, 0.75]]


def test_rollout_of_three_tokens_by_hand():
    first, second = rollout([FIRST, SECOND])
    assert first.equal(FIRST)
    # Token 0: half of row 0 and half of row 1 below; token 2: a fifth, a fifth and three fifths.
    assert second[0].tolist() == pytest.approx([0.3, 0.7, 0.0])
    assert second[1].tolist() == pytest.approx([0.15, 0.7, 0.15])
    assert second[2].tolist() == pytest.approx([0.42, 0.28, 0.3])


def test_flow_of_three_tokens_by_hand():
    network = FlowNetwork([FIRST, SECOND])
    # Token 0 reaches 0 over itself only: min(.5, .6). It reaches 1 over 0 and 1: min(.5, .4) + .5.
    assert network.largest(2, 0, [0, 1, 2]) == pytest.approx([0.5, 0.9, 0.0])
    # Token 2 reaches 0 over 0 and 2: min(.2, .6) + min(.6, .5); it reaches 2 over itself: .5.
    assert network.largest(2, 2, [0, 1, 2]) == pytest.approx([0.7, 0.4, 0.5])
    assert network.largest(1, 2, [0, 1, 2]) == pytest.approx(FIRST[2].tolist())


@pytest.mark.parametrize("seed", range(6))
def test_flow_is_the_smallest_cut_and_that_of_networkx(seed: int):
    layers = drawn(3, 4, seed)
    graph = nx.DiGraph()
    for number, layer in enumerate(layers):
        for above, below in layer.nonzero().tolist():
            weight = float(layer[above, below])
            graph.add_edge((number + 1, above), (number, below), capacity=weight)
    network = FlowNetwork(layers)
    for query, token in ((0, 0), (0, 2), (1, 2), (2, 1)):
        (found,) = network.largest(4, query, [token])
        assert found == pytest.approx(cut(layers, query, token), abs=1e-7)
        assert found == pytest.approx(
            nx.maximum_flow_value(graph, (4, query), (0, token)), abs=1e-7
        )


def test_flow_is_never_less_than_rollout():
    layers = drawn(5, 5, 0)
    shares, network = rollout(layers), FlowNetwork(layers)
    for number, share in enumerate(shares, start=1):
        flows = np.stack([network.largest(number, query, range(5)) for query in range(5)])
        assert (flows >= share.numpy() - 1e-7).all()


def test_an_encoder_decoder_by_hand():
    """One encoder layer over two source words, one target token, two decoder layers."""
    encoder = torch.tensor([[0.8, 0.2], [0.4, 0.6]])
    cross = [torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.5, 0.5]]])]
    layers, ends = translating([encoder], [], cross)
    first, second = (rollout(layers)[end - 1][0] for end in ends)
    # Half stays with the target token; half is the first source word above its encoder.
    assert first.tolist() == pytest.approx([0.5, 0.4, 0.1])
    # Half of that again, and half of the mean of both words.
    assert second.tolist() == pytest.approx([0.25, 0.2 + 0.3, 0.05 + 0.2])
    # .75 arrive at the first word's state and .25 at the second's: min(.75, .8) + min(.25, .4).
    assert FlowNetwork(layers).largest(ends[1], 0, [1, 2]) == pytest.approx([1.0, 0.45])


def test_own_attention_of_a_decoder_comes_before_its_cross_attention():
    own = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    cross = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    layers, (end,) = translating([torch.eye(2)], [own], [cross])
    assert rollout(layers)[end - 1][1].tolist() == pytest.approx([0.25, 0.25, 0.0, 0.5])
