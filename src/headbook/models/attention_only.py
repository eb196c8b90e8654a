"""A network of attention and skips alone, and its paths (Dong, Cordonnier and Loukas 2021).

A layer adds Σ_h A_h X W_h to its states X. With the weights A_h of a forward pass held constant
everything is linear, so the last states are the sum over all paths: in every layer a path takes
the skip or one head. Norms stand only where weights are computed and before the output layer.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from headbook.models.attention import split

Inputs, States = Float[Tensor, "batch time feature"], Float[Tensor, "batch time width"]
Weights = Float[Tensor, "batch head query key"]
SKIP = -1
"""In a path: the layer's skip instead of one of its heads."""


class Layer(nn.Module):
    """Heads without a skip."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        # no bias: it would be a path that starts in the middle
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def weights(self, states: States) -> Weights:
        """Attention weights of the normed states."""
        normed = functional.layer_norm(states, states.shape[-1:])
        queries, keys = (split(each(normed), self.heads) for each in (self.query, self.key))
        return (queries @ keys.mT / queries.shape[-1] ** 0.5).softmax(-1)

    def apply_weights(self, weights: Weights, states: States, head: int | None = None) -> States:
        """Σ_h A_h X W_h, or the term of one head."""
        mixed = weights @ split(self.value(states), self.heads)
        if head is not None:
            mixed = mixed * functional.one_hot(torch.tensor(head), self.heads)[:, None, None]
        return self.out(mixed.transpose(1, 2).flatten(2))


class AttentionOnly(nn.Module):
    """Input layer with learnt positions, layers of attention with skips, output layer."""

    def __init__(
        self, features: int, classes: int, time: int, width: int, heads: int, layers: int
    ) -> None:
        super().__init__()
        self.input, self.output = nn.Linear(features, width), nn.Linear(width, classes)
        self.positions = nn.Parameter(torch.randn(time, width) / width**0.5)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))

    def embedded(self, inputs: Inputs) -> States:
        """States before the first layer."""
        return self.input(inputs) + self.positions

    def states(self, inputs: Inputs) -> States:
        """States after the last layer."""
        states = self.embedded(inputs)
        for layer in self.layers:
            states = states + layer.apply_weights(layer.weights(states), states)
        return states

    def by_length(self, inputs: Inputs) -> Float[Tensor, "length batch time width"]:
        """States after the last layer, split by the number of heads that a path takes: 0 … L.

        Every layer's weights are those of the whole network, so the parts add up to `states`.
        """
        states = self.embedded(inputs)
        parts = torch.zeros(len(self.layers) + 1, *states.shape, dtype=states.dtype)
        parts[0] = states
        for layer in self.layers:
            weights = layer.weights(states)
            longer = torch.stack([layer.apply_weights(weights, part) for part in parts[:-1]])
            parts = torch.cat([parts[:1], parts[1:] + longer])
            states = parts.sum(0)
        return parts

    def along(self, inputs: Inputs, path: Sequence[int]) -> States:
        """States at the end of one path: a head, or SKIP, per layer.

        As in the authors' code, weights are computed from what arrives on the path itself.
        """
        states = self.embedded(inputs)
        for layer, head in zip(self.layers, path, strict=True):
            if head != SKIP:
                states = layer.apply_weights(layer.weights(states), states, head)
        return states

    def read(self, states: States) -> Float[Tensor, "batch time class"]:
        """Logits of states after the last layer, or of a part of them."""
        return self.output(functional.layer_norm(states, states.shape[-1:]))

    def forward(self, inputs: Inputs) -> Float[Tensor, "batch time class"]:
        return self.read(self.states(inputs))
