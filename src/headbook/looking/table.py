"""From sums to columns: one value per head, with interval, baseline and null beside it."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from torch import Tensor

from headbook.heads.measure import RatioSums, Selection
from headbook.heads.nulls import NullValues
from headbook.heads.offset_baseline import offset_baseline
from headbook.heads.positional import Place, best_offset
from headbook.heads.tag_rules import tag_baseline
from headbook.text.trees import RELATION_DIRECTIONS
from headbook.types import Kind

RELATIONS = tuple(f"{relation}_{direction}" for relation, direction in RELATION_DIRECTIONS)
"""Names of the relation columns, in the order of RELATION_DIRECTIONS."""
ONE_OF_TWO = 1
"""Of the two rare-word shares, pointing at the rarest or at one of the two rarest, the second."""

Columns = dict[str, Tensor]
"""By column: a value of every head, [layer, head], or one for all of them."""


def columns(kind: Kind, sums: Mapping[str, RatioSums], nulls: NullValues | None) -> Columns:
    """The columns of one kind of attention."""
    largest = {} if nulls is None else {name: nulls.largest(name) for name in nulls.values}
    found = _interval("confidence", sums["confidence"], largest.get("confidence"))
    found |= _positional(sums["positional"], largest.get("positional"))
    found |= {name: sums[name].ratio() for name in ("special", "entropy")}
    if kind is Kind.ENCODER:
        found |= _rare(sums, largest)
    if "syntactic" in sums:
        found |= _syntactic(sums, largest.get("syntactic"))
    return found


def frame(kind: Kind, found: Columns) -> pd.DataFrame:
    """One row per head; layer and head count from one."""
    layers, heads = found["confidence"].shape
    layer, head = np.divmod(np.arange(layers * heads), heads)
    values = {name: _flat(value, layers, heads) for name, value in found.items()}
    return pd.DataFrame({"kind": str(kind), "layer": layer + 1, "head": head + 1, **values})


def _flat(value: Tensor, layers: int, heads: int) -> np.ndarray:
    return value.broadcast_to(layers, heads).flatten().numpy()


def _interval(name: str, sums: RatioSums, null: Tensor | None) -> Columns:
    low, high = sums.interval()
    found = {name: sums.ratio(), f"{name}_low": low, f"{name}_high": high}
    return found if null is None else found | {f"{name}_null": null}


def part(sums: RatioSums, index: int) -> RatioSums:
    """The sums of one cell of the last axis."""
    numerator = sums.numerator[..., index]
    last = index if sums.denominator.shape[-1] > 1 else 0
    return RatioSums(numerator, sums.denominator[..., last])


def _positional(sums: RatioSums, null: Tensor | None) -> Columns:
    """Own token, both neighbours, the better of these, and the best of all other offsets."""
    reach = sums.numerator.shape[-1] // 2
    found: Columns = {}
    for name, offset in (("own", 0), ("previous", -1), ("next", 1)):
        of_null = None if null is None or name == "own" else null[reach + offset]
        found |= _interval(name, part(sums, reach + offset), of_null)
    for place in (Place.NEIGHBOUR, Place.OTHER):
        best = best_offset(sums, place)
        found |= {str(place): best.share, f"{place}_low": best.low, f"{place}_high": best.high,
                  f"{place}_offset": best.offset}  # fmt: skip
    return found


def _rare(sums: Mapping[str, RatioSums], largest: Mapping[str, Tensor]) -> Columns:
    found: Columns = {}
    for name in ("rare", "rare_sentences"):
        null = largest[name][ONE_OF_TWO] if name in largest else None
        found |= _interval(name, part(sums[name], ONE_OF_TWO), null)
        found[f"{name}_chance"] = sums[f"{name}_chance"].ratio()[..., ONE_OF_TWO]
    return found


def _syntactic(sums: Mapping[str, RatioSums], null: Tensor | None) -> Columns:
    offsets = offset_baseline(sums["offsets"], Selection.EVERYTHING)
    tags = tag_baseline(sums["tags"], Selection.EVERYTHING) if "tags" in sums else None
    found: Columns = {}
    for column, name in enumerate(RELATIONS):
        of_null = None if null is None else null[column]
        found |= _interval(name, part(sums["syntactic"], column), of_null)
        found[f"{name}_offset"] = offsets.accuracy[column]
        if tags is not None:
            found[f"{name}_tags"] = tags.accuracy[column]
    return found
