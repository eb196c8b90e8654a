"""Where in a network a property is: its centre of gravity over the layers.

Tenney, Das and Pavlick (2019) summarise probes of all layers by two numbers. The centre of gravity
weighs each layer by how much of the property it holds; the expected layer by how much it adds to
the layers below. They fit both to mixtures of layers; here each layer has a probe of its own, and
a layer adds something where it exceeds all those below.
"""

import numpy as np
from jaxtyping import Float


def centre(scores: Float[np.ndarray, "*batch layer"]) -> Float[np.ndarray, "*batch"]:
    """Σ l s_l / (L Σ s_l) over layers 0 to L, a share of the depth; scores below 0 count as 0.

    NaN where no layer has a positive score; one half for a score that is the same everywhere.
    """
    weights = np.clip(scores, 0, None)
    return _mean_layer(weights)


def expected(scores: Float[np.ndarray, "*batch layer"]) -> Float[np.ndarray, "*batch"]:
    """Σ l g_l / (L Σ g_l), where g_l is the gain of layer l over the best layer below it.

    NaN where no layer exceeds layer 0.
    """
    best = np.maximum.accumulate(scores, axis=-1)
    gains = np.diff(best, axis=-1, prepend=best[..., :1])
    return _mean_layer(gains)


def _mean_layer(weights: Float[np.ndarray, "*batch layer"]) -> Float[np.ndarray, "*batch"]:
    depth = np.linspace(0, 1, weights.shape[-1])
    total = weights.sum(-1)
    found = weights @ depth
    return np.divide(found, total, out=np.full(np.shape(total), np.nan), where=total > 0)
