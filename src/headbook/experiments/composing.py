"""What heads read of what lower heads write, from weights alone (page 57).

Elhage et al. (2021): head a adds x W_V W_O to the states, and head b reads them by W_Q W_Kᵀ or
W_V W_O. Biases, and what feed-forward layers make of the states, are left out.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.stats import rankdata
from torch import Tensor

from headbook.heads.outputs import output_parts
from headbook.looking.sublayers import encoder
from headbook.looking.weights import encoder_weights
from headbook.models.loaded import Loaded
from headbook.statistics import drawn_within, spearman
from headbook.types import Kind


def projections(model: Loaded) -> tuple[list[Tensor], Tensor, bool]:
    """W_Q, W_K, W_V and W_Oᵀ [layer head model dim] of an encoder in float64, the gains of its
    norms [layer, 2, model], and whether they stand before the sublayers. UserError without them."""
    layers = encoder(model).layers
    outputs = torch.stack(output_parts(model.network, Kind.ENCODER)).mT
    norms = [(each.attention_norm.weight, each.feed_forward_norm.weight) for each in layers]
    gains = torch.stack([torch.stack(each) for each in norms]).detach().double()
    found = [each.detach().double() for each in (*encoder_weights(model.network), outputs)]
    return found, gains, layers[0].pre_norm


def composition(
    weights: Sequence[Tensor], gains: Tensor, pre_norm: bool
) -> Float[Tensor, "by=3 layer head other_layer other_head"]:
    """‖O R‖ / (‖O‖ ‖R‖) of every head with every head of a higher layer; NaN elsewhere.

    What a head writes, O = W_V W_O, passes the centring and gains of the norms up to the reader:
    one, or two per layer where they stand behind the sublayers. What they divide a token by leaves
    the score as it is. The reader's R is W_Q W_Kᵀ, its transpose, and W_V W_O.
    """
    q, k, v, o = weights
    r_q, r_k, r_v, r_o = (torch.linalg.qr(each, mode="r").R for each in weights)  # ‖A‖ = ‖R_A‖
    written, reads = r_v @ o.mT, (q @ r_k.mT, k @ r_q.mT, v @ r_o.mT)
    layers, heads = v.shape[:2]
    found = v.new_full((3, layers, heads, layers, heads), torch.nan)
    norm = torch.linalg.matrix_norm
    for lower in range(layers):
        behind = written[lower]
        for upper in range(lower + 1, layers):
            passed = written[lower] if pre_norm else behind
            for gain in gains[upper, :1] if pre_norm else gains[upper - 1]:
                passed = (passed - passed.mean(-1, keepdim=True)) * gain
            behind = passed
            for at, each in enumerate(reads):
                size = norm(torch.einsum("hdm,gme->hgde", passed, each[upper]))
                found[at, lower, :, upper] = size / norm(passed)[:, None] / norm(each[upper])
    return found


def over_redrawn(model: Loaded, draws: int = 3) -> Float[np.ndarray, "by=3 head other"]:
    """`composition` over its mean with projections drawn from a normal distribution."""
    weights, gains, pre_norm = projections(model)
    random = []
    for noise in (torch.Generator().manual_seed(seed) for seed in range(draws)):
        drawn = [torch.randn(w.shape, generator=noise, dtype=w.dtype) for w in weights]
        random.append(composition(drawn, gains, pre_norm))
    chance = torch.stack(random).nanmean((0, 2, 3, 4, 5))[:, None, None]
    found = composition(weights, gains, pre_norm).flatten(3).flatten(1, 2)
    return (found / chance).numpy()


def agreement(
    layers: Int[np.ndarray, " head"], pairs: Int[np.ndarray, "pair 2"], table: pd.DataFrame
) -> Float[np.ndarray, "replicate 2"]:
    """Spearman's correlation of composition and size of interaction over pairs of two layers.

    `table` has columns composition, interaction, and alone, the effects of both. Second column:
    these effects and both layers taken out. After the first row heads are drawn within layers.
    """
    first, second = pairs.T
    sides = np.stack([table["composition"], table["interaction"].abs()])
    others = np.stack([layers[first], layers[second], table["alone"]])
    found = []
    for own in drawn_within(layers.tolist(), 1000):
        times = np.bincount(own, minlength=len(layers))
        rows = np.repeat(np.arange(len(pairs)), times[first] * times[second])
        chosen = sides[:, rows]
        found.append((spearman(chosen)[0, 1], partial_spearman(*chosen, others[:, rows])))
    return np.array(found)


def partial_spearman(
    first: Float[np.ndarray, " head"],
    second: Float[np.ndarray, " head"],
    taken_out: Float[np.ndarray, "measure head"],
) -> float:
    """Correlation of two measures' ranks after the part that others' ranks explain is removed.

    NaN where nothing is left of one of them.
    """
    ranks = rankdata(np.vstack([first, second, taken_out]), axis=-1)
    apart = ranks - ranks.mean(-1, keepdims=True)
    sides, others = apart[:2].T, apart[2:].T
    left = sides - others @ np.linalg.lstsq(others, sides, rcond=None)[0]
    size = np.linalg.norm(left, axis=0)
    if (size < 1e-9 * np.linalg.norm(sides, axis=0).clip(min=1)).any():
        return np.nan
    return float(left[:, 0] @ left[:, 1] / size.prod())
