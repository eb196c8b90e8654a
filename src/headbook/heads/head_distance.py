"""Distances between the maps of any two heads of a model, whatever their layers."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.diversity_grams import ALL_TOKENS
from headbook.heads.diversity_maps import counted_maps
from headbook.heads.measure import HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import counted_queries
from headbook.types import Kind

REACH = 5
"""Offsets up to this have a place of their own in a head's profile."""
BITS = float(np.log(2))

Distances = Float[np.ndarray, "head other"]
Layers = Int[np.ndarray, " head"]


class HeadDivergence(HeadMeasure):
    """Mean over queries of the Jensen-Shannon divergence of two heads' rows, [head, head], in bits.

    Heads are those of all layers, one layer after another. Clark et al. 2019, section 6, take the
    sum over tokens, which grows with the text; special tokens count, as there. 0 for equal maps, 1
    for maps that share no key.
    """

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch head other"], Float[Tensor, "batch 1 1"]]:
        maps = torch.cat(counted_maps(tape, batch, self.kind), dim=1)
        own = torch.special.entr(maps).sum((-2, -1))
        found = maps.new_zeros(len(maps), own.shape[1], own.shape[1])
        for head in range(own.shape[1]):
            mixed = (maps[:, [head]] + maps[:, head:]) / 2
            between = torch.special.entr(mixed).sum((-2, -1)) - (own[:, [head]] + own[:, head:]) / 2
            found[:, head, head:] = found[:, head:, head] = between.clamp(min=0) / BITS
        queries = counted_queries(batch, self.kind, ALL_TOKENS).double().sum(1)
        return found, queries[:, None, None]


class OffsetProfile(HeadMeasure):
    """Mean weight by relative offset, [head, bin], heads as in `HeadDivergence`; rows sum to 1.

    Bins are farther left, offsets -5 to 5, farther right, and special keys wherever they stand.
    """

    def __init__(self, kind: Kind, replicates: int = 0) -> None:
        super().__init__(kind, replicates)

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch head bin"], Float[Tensor, "batch 1 1"]]:
        special = batch.input_boundary if self.kind is Kind.DECODER else batch.source_boundary
        queries = counted_queries(batch, self.kind, ALL_TOKENS)
        at = torch.arange(queries.shape[1], device=special.device)
        keys = torch.arange(special.shape[1], device=special.device)
        offset = (keys - at[:, None]).clamp(-REACH - 1, REACH + 1) + REACH + 1
        bins = torch.where(special[:, None], 2 * REACH + 3, offset)
        maps = torch.cat(counted_maps(tape, batch, self.kind), dim=1)
        found = maps.new_zeros(*maps.shape[:2], 2 * REACH + 4)
        place = bins[:, None].expand(maps.shape).flatten(2)
        found.scatter_add_(2, place, maps.flatten(2))
        return found, queries.double().sum(1)[:, None, None]


def divergences(rows: Float[np.ndarray, "head bin"]) -> Distances:
    """Jensen-Shannon divergence of every two rows, in bits."""
    given = torch.from_numpy(np.asarray(rows, dtype=float))
    own = torch.special.entr(given).sum(-1)
    mixed = torch.special.entr((given[:, None] + given) / 2).sum(-1)
    return ((mixed - (own[:, None] + own) / 2).clamp(min=0) / BITS).numpy()


def contrasts(distances: Distances, layers: Layers) -> Float[np.ndarray, " head"]:
    """Per head: mean distance to heads of other layers minus that to the others of its own.

    NaN where a layer has one head, or the model one layer.
    """
    same = layers[:, None] == layers
    own = same & ~np.eye(len(layers), dtype=bool)
    with np.errstate(invalid="ignore"):
        far = (distances * ~same).sum(1) / (~same).sum(1)
        near = (distances * own).sum(1) / own.sum(1)
    return far - near


def nearest_in_layer(distances: Distances, layers: Layers) -> Float[np.ndarray, " head"]:
    """1 for a head whose nearest head is of its own layer, else 0."""
    others = distances + np.where(np.eye(len(layers), dtype=bool), np.inf, 0)
    return (layers[others.argmin(1)] == layers).astype(float)


def matched_contrasts(
    distances: Distances, profiles: Distances, layers: Layers
) -> Float[np.ndarray, " head"]:
    """`contrasts`, each neighbour of the own layer against the head elsewhere as far in profile.

    For head i and j of its layer, that is the head m of another layer whose profile is as far from
    i's as j's is; the mean over j of D_im - D_ij. 0 where offsets explain who is near whom.
    """
    found = []
    for head, layer in enumerate(layers):
        mates = np.flatnonzero((layers == layer) & (np.arange(len(layers)) != head))
        others = np.flatnonzero(layers != layer)
        gaps = np.abs(profiles[head, others] - profiles[head, mates][:, None])
        matched = others[gaps.argmin(1)]
        found.append((distances[head, matched] - distances[head, mates]).mean())
    return np.array(found)


def permuted_contrasts(
    distances: Distances, layers: Layers, draws: int, seed: int
) -> Float[np.ndarray, " draw"]:
    """Mean of `contrasts` with the heads' layers permuted: closeness that is not the layers'."""
    noise = np.random.default_rng(seed)
    return np.array([contrasts(distances, noise.permutation(layers)).mean() for _ in range(draws)])


def groups_of(labels: Sequence[int]) -> list[list[int]]:
    """Places that have the same label, in the order of their first places."""
    return [
        [at for at, each in enumerate(labels) if each == name] for name in dict.fromkeys(labels)
    ]
