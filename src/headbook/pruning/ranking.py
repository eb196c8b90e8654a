"""Orders in which heads are pruned, and the nested masks that follow from an order."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.types import HeadId, Kind, UserError


def ascending(scores: Mapping[Kind, Float[Tensor, "layer head"]]) -> tuple[HeadId, ...]:
    """All heads together, the lowest score first (Michel et al. 2019, section 4.1); ties by HeadId.

    The scores must be comparable between kinds and layers. UserError for a score that is NaN.
    """
    found = [
        (score, HeadId(kind, layer, head))
        for kind, of_kind in scores.items()
        for layer, of_layer in enumerate(of_kind.tolist())
        for head, score in enumerate(of_layer)
    ]
    unknown = sorted(head for score, head in found if score != score)
    if unknown:
        raise UserError(
            f"the score of {unknown[0].label} is NaN, and of {len(unknown) - 1} more heads; "
            "heads without a score cannot be put in order"
        )
    return tuple(head for _, head in sorted(found))


def random_order(heads: Iterable[HeadId], seed: int) -> tuple[HeadId, ...]:
    """The heads in random order: the same for the same seed, however they were given."""
    known = sorted(set(heads))
    shuffled = torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))
    return tuple(known[index] for index in shuffled.tolist())


def first_of(order: Sequence[HeadId], count: int) -> tuple[HeadId, ...]:
    """The first `count` heads of an order; UserError where it has fewer."""
    if not 0 <= count <= len(order):
        raise UserError(f"{count} heads cannot be pruned of {len(order)}; ask for fewer")
    return tuple(order[:count])


def keep_one(heads: Iterable[HeadId], kept: HeadId) -> tuple[HeadId, ...]:
    """The mask that closes every other head of the kept one's block (Michel et al. 2019, 3.3).

    UserError where the kept head is not among `heads`.
    """
    known = sorted(set(heads))
    if kept not in known:
        raise UserError(f"there is no head {kept.label} to be kept; name one of the model's heads")
    block = (kept.kind, kept.layer)
    return tuple(head for head in known if (head.kind, head.layer) == block and head != kept)
