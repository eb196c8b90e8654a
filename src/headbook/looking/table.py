"""From sums to columns: one value per head, with interval, baseline and null beside it."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from headbook.heads.measure import RatioSums, largest
from headbook.heads.repeats import COPYING, DUPLICATE, INDUCTION, REPEATS, SHUFFLED
from headbook.heads.scores import REACH
from headbook.looking.passes import OF_ANY_KIND
from headbook.text.trees import RELATION_DIRECTIONS
from headbook.types import Kind

RELATIONS = tuple(f"{relation}_{direction}" for relation, direction in RELATION_DIRECTIONS)
"""Names of the relation columns, in the order of RELATION_DIRECTIONS."""
ONE_OF_TWO = 1
"""Of the two rare-word shares, pointing at the rarest or at one of the two rarest, the second."""
CHANCE = "syntactic_chance"
GRADIENT, ABLATION = "importance_gradient", "importance_ablation"
NEIGHBOURS = (-1, 1)
OTHERS = tuple(offset for offset in range(-REACH, REACH + 1) if abs(offset) > 1)

Columns = dict[str, Tensor]
"""By column: a value of every head, [layer, head], or one for all of them."""


def columns(sums: Mapping[str, RatioSums], nulls: Mapping[str, Tensor]) -> Columns:
    """The columns of one kind of attention; `nulls` are the largest values of null networks."""

    def cell(name: str, measure: str, at: int) -> Columns:
        null = nulls[measure][at] if measure in nulls and name != "own" else None
        return _interval(name, sums[measure][at], null)

    found = _interval("confidence", sums["confidence"], nulls.get("confidence"))
    causal = "first" in sums
    for name, offset in (("own", 0), ("previous", -1), ("next", 1))[: 2 if causal else 3]:
        found |= cell(name, "positional", REACH + offset)
    if causal:
        found["own_chance"] = sums["positional_chance"][REACH].ratio()
        found["previous_chance"] = sums["positional_chance"][REACH - 1].ratio()
        found |= _interval("first", sums["first"], nulls.get("first"))
        for at, name in enumerate(("with", "without")):
            found[f"confidence_{name}_first"] = sums["confidences"][at].ratio()
    for at, name in ((INDUCTION, "induction"), (DUPLICATE, "duplicate")):
        if REPEATS in sums:
            found |= cell(name, REPEATS, at)
            found[f"{name}_shuffled"] = sums[SHUFFLED][at].ratio()
    if COPYING in sums:
        found |= _interval(COPYING, sums[COPYING], nulls.get(COPYING))
    found |= _best("neighbour", NEIGHBOURS, sums["positional"])
    found |= _best("other", OTHERS, sums["positional"])
    plain = {name: sums[name].ratio() for name in OF_ANY_KIND if name not in found}
    found |= {name: value for name, value in plain.items() if value.ndim == 2}
    for name in [name for name in ("rare", "rare_sentences") if name in sums]:
        found |= cell(name, name, ONE_OF_TWO)
        found[f"{name}_chance"] = sums[f"{name}_chance"][ONE_OF_TWO].ratio()
    for at, name in enumerate(RELATIONS) if "syntactic" in sums else ():
        found |= cell(name, "syntactic", at)
        for rival, suffix in (("offsets", "offset"), ("tags", "tags"), (CHANCE, "chance")):
            if rival in sums:
                found[f"{name}_{suffix}"] = largest(sums[rival].ratio(), 0)[at]
    for name in [name for name in (GRADIENT, ABLATION) if name in sums]:
        found |= _interval(name, sums[name], None)
    return found


def frame(kind: Kind, found: Columns, there: Bool[Tensor, "layer head"]) -> pd.DataFrame:
    """One row for each head that is `there`; layer and head count from one."""
    layer, head = (each.numpy() + 1 for each in there.nonzero(as_tuple=True))
    values = {name: each.broadcast_to(there.shape)[there].numpy() for name, each in found.items()}
    return pd.DataFrame({"kind": str(kind), "layer": layer, "head": head, **values})


def _interval(name: str, sums: RatioSums, null: Tensor | None) -> Columns:
    low, high = sums.interval()
    found = {name: sums.ratio(), f"{name}_low": low, f"{name}_high": high}
    return found if null is None else found | {f"{name}_null": null}


def _best(name: str, offsets: Sequence[int], positional: RatioSums) -> Columns:
    """The best of some offsets, of equal ones the leftmost."""
    at = [REACH + offset for offset in offsets]
    values = [each[..., at] for each in (positional.ratio(), *positional.interval())]
    best = values[0].nan_to_num(nan=-torch.inf).argmax(-1, keepdim=True)
    columns = [name, f"{name}_low", f"{name}_high"]
    found = {key: each.gather(-1, best)[..., 0] for key, each in zip(columns, values, strict=True)}
    return found | {f"{name}_offset": torch.tensor(offsets)[best[..., 0]]}
