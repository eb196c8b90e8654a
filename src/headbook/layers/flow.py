"""Attention as the capacities of a flow network (Abnar and Zuidema 2020, section 3)."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

UNIT = 2**28
"""Capacities are counted in whole numbers: a weight of one is so many."""


class FlowNetwork:
    """The layers' graph: from token i above layer l to token j below it flows at most A_l[i, j].

    `layers` are those of layers/rollout.py, from the input upward.
    """

    def __init__(self, layers: Sequence[Float[Tensor, "node node"]]) -> None:
        self.tokens, self.layers = len(layers[0]), len(layers)
        rows, columns, values = [], [], []
        for number, layer in enumerate(layers):
            weights = layer.double().cpu().numpy()
            above, below = weights.nonzero()
            rows.append((number + 1) * self.tokens + above)
            columns.append(number * self.tokens + below)
            values.append(weights[above, below] * UNIT)
        size = (self.layers + 1) * self.tokens
        edges = np.concatenate(rows), np.concatenate(columns)
        capacities = np.concatenate(values).astype(np.int32)
        self._graph = csr_array((capacities, edges), shape=(size, size), dtype=np.int32)

    def largest(self, layer: int, query: int, inputs: Sequence[int]) -> Float[np.ndarray, " input"]:
        """The maximum flow from a token above `layer` layers to each of the input tokens."""
        start = layer * self.tokens + query
        most = partial(maximum_flow, self._graph, start, method="dinic")
        return np.array([most(token).flow_value for token in inputs]) / UNIT
