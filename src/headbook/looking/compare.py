"""`hb.compare`: two tables of heads of one model, before and after."""

import pandas as pd
import torch

from headbook.heads.measure import Difference
from headbook.looking.measured import HEAD, Measured, measured, of_rows, without_intervals
from headbook.looking.roles import roles
from headbook.looking.table import ABLATION, GRADIENT, columns, frame
from headbook.types import Kind, UserError

CHOSEN = ("neighbour", "other")
"""Columns of the best of several offsets, which differ between two tables."""
ENDS = ("_low", "_high")
OF_THE_TEXT = ("_offset", "_chance", "_tags", "_shuffled")


def compare(heads: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """`others` minus `heads`, head by head: before and after fine-tuning, silencing, quantising.

    Both tables are from `hb.measure` on the same sentences. The result has one row per head of the
    first, and its columns are differences of those of `hb.measure`: `_low`, `_high` bound their
    95 % interval, which is paired, since both are drawn again with the same sentences. It is empty
    where the two used different ones of the text: heads removed on other numbers of sentences
    (`ablated=50` in both is on the same), sentences left out of one. A head that one of them did
    not remove has no importance by ablation. `gained` and `lost` name the roles that a head has in
    the second table alone, or in the first alone, by `hb.roles`.

    UserError for tables of different sentences, and for models whose heads are others: a pruned
    model counts its heads anew, so compare it in its full shape, or under `hb.close`.
    """
    one, two = measured(heads), measured(others)
    _check(one, two)
    frames = []
    for kind, sums in one.sums.items():
        after = two.sums.get(kind, {})
        pairs = {name: (sums[name], after[name]) for name in sums if name in after}
        differences = {name: Difference(new.numerator, new.denominator, old)
                       for name, (old, new) in pairs.items()}  # fmt: skip
        if one.importance != two.importance:  # nats are no distances between vectors
            differences.pop(ABLATION, None)
        if differences:
            found, there = columns(differences, {}), sums["confidence"].there
            unpaired = _unpaired(one, two, kind)
            found |= {end: torch.full_like(found[end], torch.nan) for end in found
                      if end.startswith(unpaired) and end.endswith(ENDS)}  # fmt: skip
            frames.append(frame(kind, found, there))
    if not frames:
        raise UserError(f"{one.model} and {two.model} share no kind of attention to compare")
    table = of_rows(of_rows(pd.concat(frames, ignore_index=True), heads), others)
    table = table[[name for name in table if not name.endswith(OF_THE_TEXT)
                   and name.removesuffix("_low").removesuffix("_high") not in CHOSEN]]  # fmt: skip
    table = without_intervals(table, one.sentences["all"])
    held = [_held(each) for each in (heads, others)]
    for name, having, lacking in (("gained", *held[::-1]), ("lost", *held)):
        own = [having.get(head, {}).keys() - lacking.get(head, {}).keys()
               for head in table[HEAD].itertuples(index=False, name=None)]  # fmt: skip
        table[name] = ["; ".join(sorted(each)) for each in own]
    return table.reset_index(drop=True)


def _unpaired(one: Measured, two: Measured, kind: Kind) -> tuple[str, ...]:
    """Beginnings of the columns that are of different sentences in the two tables."""
    if one.targeted != two.targeted:
        return (GRADIENT, ABLATION) if kind is next(iter(one.sums)) else ("",)
    return (ABLATION,) if one.sentences.get("ablated") != two.sentences.get("ablated") else ()


def _check(one: Measured, two: Measured) -> None:
    if one.digest != two.digest:
        raise UserError(
            f"the tables are of different sentences ({one.text} and {two.text}): measure both "
            "models on the same text"
        )
    for kind in one.sums.keys() & two.sums.keys():
        shapes = [each.sums[kind]["confidence"].ratio().shape for each in (one, two)]
        if shapes[0] != shapes[1]:
            sizes = " and ".join(" × ".join(map(str, shape)) for shape in shapes)
            raise UserError(
                f"{one.model} and {two.model} have {sizes} {kind} heads; a pruned model is "
                "compared in its full shape, or by hb.close"
            )


def _held(heads: pd.DataFrame) -> dict[tuple, dict[str, None]]:
    """The roles of every head that has any, in words."""
    found: dict[tuple, dict[str, None]] = {}
    for row in roles(heads).itertuples(index=False):
        words = row.detail if row.role == "syntactic" else row.role
        found.setdefault((row.kind, row.layer, row.head), {})[words] = None
    return found
