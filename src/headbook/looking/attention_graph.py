"""One sentence's attention as a layered graph from a model's outputs down to its input words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.layers.flow import FlowNetwork
from headbook.layers.rollout import Mixing, mixing, rollout, translating
from headbook.models.capture import Capturable, Point, capture
from headbook.types import Kind

Weights = Mapping[Kind, Sequence[Float[Tensor, "head query key"]]]
"""Of one sentence, layer by layer."""
Scores = list[Float[Tensor, "output input"]]
"""One matrix per layer that is read, from the input upward."""


@dataclass(frozen=True)
class AttentionGraph:
    """Weights of one sentence, its outputs and its input words (special tokens are neither).

    `kind` is the attention in which they meet: encoder, decoder (one without an encoder), or cross,
    where outputs are target tokens and inputs source words. `outputs` and `inputs` are places in
    the sentence; `seen` says which inputs an output can have seen, `own` which one it is.
    `pooled` has one output instead: the mean of all tokens.
    """

    kind: Kind
    weights: Weights
    outputs: Int[Tensor, " output"]
    inputs: Int[Tensor, " input"]
    pooled: bool = False

    @property
    def seen(self) -> Bool[Tensor, "output input"]:
        if self.kind is Kind.DECODER:
            return self.outputs[:, None] >= self.inputs
        return torch.ones(len(self._readers), len(self.inputs), dtype=torch.bool)

    @property
    def own(self) -> Bool[Tensor, "output input"]:
        if self.pooled or self.kind is Kind.CROSS:
            return ~self.seen
        return self.outputs[:, None] == self.inputs

    def raw(self) -> Scores:
        """The heads' mean weight on each input, read as if states were words."""
        rows = [layer.mean(0) for layer in self.weights[self.kind]]
        return [(self._readers @ row)[:, self.inputs] for row in rows]

    def rollout(self) -> Scores:
        """Rollout to the inputs (layers/rollout.py)."""
        layers, ends, inputs = self._layers()
        shares, readers = rollout(layers), self._readers_of(layers)
        return [(readers @ shares[end - 1])[:, inputs] for end in ends]

    def flow(self) -> Scores:
        """Maximum flow to the inputs (layers/flow.py); a mean of tokens is a layer of its own."""
        layers, ends, inputs = self._layers()
        nodes = inputs.tolist()
        if not self.pooled:
            network = FlowNetwork(layers)
            rows = [[network.largest(end, output, nodes) for output in self.outputs.tolist()]
                    for end in ends]  # fmt: skip
            return [torch.from_numpy(np.stack(each)) for each in rows]
        top = torch.zeros_like(layers[0])
        top[0] = self._readers_of(layers)
        found = [FlowNetwork([*layers[:end], top]).largest(end + 1, 0, nodes) for end in ends]
        return [torch.from_numpy(each)[None] for each in found]

    def nearness(self) -> Scores:
        """Minus the distance in tokens; between two sentences, of their relative positions.

        The mean of all tokens is as near to each of them.
        """
        here, there = self.outputs.double(), self.inputs.double()
        if self.pooled:
            return [torch.zeros(1, len(there))] * len(self.weights[self.kind])
        if self.kind is Kind.CROSS:
            target, source = self.weights[self.kind][0].shape[1:]
            here, there = here / target, there / source
        return [-(here[:, None] - there).abs()] * len(self.weights[self.kind])

    def uniform(self) -> "AttentionGraph":
        """The same with every weight equal, later tokens hidden in a decoder."""
        flat = {kind: [_equal(layer, kind) for layer in each]
                for kind, each in self.weights.items()}  # fmt: skip
        return replace(self, weights=flat)

    @property
    def _readers(self) -> Float[Tensor, "output token"]:
        """Rows of attention behind each output: its token's own, or the mean of all."""
        tokens = self.weights[self.kind][0].shape[1]
        if self.pooled:
            return torch.full((1, tokens), 1 / tokens, dtype=torch.float64)
        return torch.eye(tokens, dtype=torch.float64)[self.outputs]

    def _readers_of(self, layers: Sequence[Mixing]) -> Float[Tensor, "output node"]:
        """The same over the nodes of the graph, in which target tokens come first."""
        readers = self._readers
        return torch.nn.functional.pad(readers, (0, len(layers[0]) - readers.shape[1]))

    def _layers(self) -> tuple[list[Mixing], Sequence[int], Tensor]:
        """Layers of the graph, how many lie below each one that is read, and the inputs' nodes."""
        if self.kind is not Kind.CROSS:
            layers = [mixing(each) for each in self.weights[self.kind]]
            return layers, range(1, len(layers) + 1), self.inputs
        encoder, own = ([mixing(each) for each in self.weights.get(kind, ())]
                        for kind in (Kind.ENCODER, Kind.DECODER))  # fmt: skip
        layers, ends = translating(encoder, own, self.weights[self.kind])
        return layers, ends, self.inputs + self.weights[self.kind][0].shape[1]


def attention_graph(network: Capturable, kind: Kind, batch: Batch) -> AttentionGraph:
    """The graph of a batch of one sentence without padding; evaluation mode."""
    with torch.no_grad(), capture(network, {Point.WEIGHTS}) as tape:
        network(batch)
    weights = {each: [layer[0].double().cpu() for layer in tape[each, Point.WEIGHTS]]
               for each in Kind if (each, Point.WEIGHTS) in tape}  # fmt: skip
    inputs = input_words(kind, batch).nonzero().flatten()
    if kind is not Kind.CROSS:
        return AttentionGraph(kind, weights, inputs, inputs)
    written = (batch.target_mask & ~batch.output_boundary)[0].nonzero().flatten()
    return AttentionGraph(kind, weights, written, inputs)


def input_words(kind: Kind, batch: Batch) -> Bool[Tensor, " token"]:
    """True at the tokens of the sentence that stand for text."""
    if kind is Kind.DECODER:
        return (batch.target_mask & ~batch.input_boundary)[0]
    return (batch.source_mask & ~batch.source_boundary)[0]


def _equal(weights: Float[Tensor, "head query key"], kind: Kind) -> Float[Tensor, "1 query key"]:
    rows = torch.ones(1, *weights.shape[1:], dtype=weights.dtype)
    rows = rows.tril() if kind is Kind.DECODER else rows
    return rows / rows.sum(-1, keepdim=True)
