"""Share of queries at which a head points at one offset: its own token, a neighbour, another."""

from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.measure import (
    REPLICATES,
    HeadMeasure,
    RatioSums,
    Selection,
    best_of,
)
from headbook.heads.recording import Recording
from headbook.heads.tokens import (
    NOWHERE,
    counted_pairs,
    counted_queries,
    favourites,
)
from headbook.text.batches import Batch
from headbook.types import Kind

REACH = 5
"""Largest offset looked at. The paper's positional heads are all at -1 or +1."""


class Place(StrEnum):
    """Three sorts of fixed offset, which are measured apart; only the neighbour is a role.

    A head at offset 0 looks at its own token, whatever stands around it: counted with the
    neighbours it would pass for the positional head of Voita et al. 2019.
    """

    OWN = "own"
    """Offset 0; in cross-attention the source token at the same position."""
    NEIGHBOUR = "neighbour"
    """Offset -1 or +1: the positional heads of Voita et al. 2019, section 5.1."""
    OTHER = "other"
    """Any offset farther away, within reach."""

    def offsets(self, reach: int = REACH) -> list[int]:
        """From left to right."""
        every = range(-reach, reach + 1)
        return [offset for offset in every if place_of(offset) is self]


def place_of(offset: int) -> Place:
    """The place that an offset belongs to."""
    near = {0: Place.OWN, 1: Place.NEIGHBOUR}
    return near.get(abs(offset), Place.OTHER)


def at_place(values: Float[Tensor, "*cell offset"], place: Place) -> Float[Tensor, "*cell near"]:
    """The columns of one place, from values at all offsets within reach of zero."""
    reach = values.shape[-1] // 2
    return values[..., [offset + reach for offset in place.offsets(reach)]]


class PositionalShare(HeadMeasure):
    """Share of query tokens that point at query + offset, [layer, head, offset].

    Offsets run from -`reach` to +`reach` in tokens (subword pieces), see `offsets`; `best_offset`
    takes them by `Place`. Voita et al. 2019, section 5.1, call a head positional at 90 %; which
    tokens count is not stated there. Here a token does not count at an offset at which its sentence
    has no token it could point at. In cross-attention the offset is source position minus target
    position.
    """

    def __init__(
        self,
        kind: Kind,
        reach: int = REACH,
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(kind, replicates)
        self.reach = reach

    @property
    def offsets(self) -> Int[Tensor, " offset"]:
        """Key position minus query position, along the last axis."""
        return torch.arange(-self.reach, self.reach + 1)

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head offset"], Float[Tensor, "batch 1 1 offset"]]:
        pairs = counted_pairs(batch, self.kind)
        queries = counted_queries(batch, self.kind)
        key = favourites(tape, batch, self.kind).key
        return self._hits(key, queries), self._countable(pairs, queries)[:, None, None]

    def _hits(
        self, key: Int[Tensor, "batch layer head query"], queries: Bool[Tensor, "batch query"]
    ) -> Float[Tensor, "batch layer head offset"]:
        """Queries pointing at each offset; all others fall into one more bin, which is cut off."""
        offset = key - torch.arange(key.shape[-1], device=key.device)
        within = (key != NOWHERE) & (offset.abs() <= self.reach) & queries[:, None, None]
        elsewhere = 2 * self.reach + 1
        slot = torch.where(within, offset + self.reach, elsewhere)
        counts = torch.zeros(*key.shape[:-1], elsewhere + 1, device=key.device)
        return counts.scatter_add_(-1, slot, torch.ones_like(slot, dtype=counts.dtype))[..., :-1]

    def _countable(
        self, pairs: Bool[Tensor, "batch query key"], queries: Bool[Tensor, "batch query"]
    ) -> Float[Tensor, "batch offset"]:
        """Queries that count at each offset."""
        reachable = pairs & queries[:, :, None]
        diagonals = [reachable.diagonal(int(offset), 1, 2).sum(-1) for offset in self.offsets]
        return torch.stack(diagonals, dim=-1).double()


@dataclass(frozen=True)
class BestOffset:
    """Each head's best offset of one place, `share` scored as the selection says.

    -`reach` - 1 where nothing counted. `chosen` is the share where the offset was chosen.
    """

    offset: Int[Tensor, "layer head"]
    chosen: Float[Tensor, "layer head"]
    share: Float[Tensor, "layer head"]
    low: Float[Tensor, "layer head"]
    high: Float[Tensor, "layer head"]


def best_offset(
    sums: RatioSums, place: Place, selection: Selection = Selection.EVERYTHING
) -> BestOffset:
    """The offset of this place that each head points at most, from the sums of a
    `PositionalShare`; of equal ones the leftmost."""
    best = best_of(sums, lambda values: at_place(values, place).movedim(-1, 0), selection)
    reach = sums.ratio().shape[-1] // 2
    offsets = torch.tensor([*place.offsets(reach), -reach - 1])  # the last one for index -1
    return BestOffset(offsets[best.index], best.chosen, best.score, best.low, best.high)
