"""`hb.compare`: two tables of heads of one model, before and after."""

import pandas as pd

from headbook.heads.measure import Difference
from headbook.looking.measured import HEAD, Measured, measured, of_rows, without_intervals
from headbook.looking.roles import roles
from headbook.looking.table import columns, frame
from headbook.types import UserError

CHOSEN = ("neighbour", "other")
"""Columns of the best of several offsets, which differ between two tables."""
OF_THE_TEXT = ("_offset", "_chance", "_tags", "_shuffled")
IMPORTANCE = ("importance_gradient", "importance_ablation")


def compare(heads: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """`others` minus `heads`, head by head: before and after fine-tuning, silencing, quantising.

    Both tables are from `hb.measure` on the same sentences. The result has one row per head of the
    first, and its columns are differences of those of `hb.measure`: `_low`, `_high` bound their
    95 % interval, which is paired, since both are drawn again with the same sentences (importance
    has none). `gained` and `lost` name the roles that a head has in the second table alone, or in
    the first alone, by `hb.roles`.

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
        if differences:
            there = sums["confidence"].there
            frames.append(frame(kind, columns(differences, {}), there))
    if not frames:
        raise UserError(f"{one.model} and {two.model} share no kind of attention to compare")
    table = of_rows(of_rows(pd.concat(frames, ignore_index=True), heads), others)
    table = table[[name for name in table if not name.endswith(OF_THE_TEXT)
                   and name.removesuffix("_low").removesuffix("_high") not in CHOSEN]]  # fmt: skip
    table = without_intervals(table, one.sentences["all"])
    for name in IMPORTANCE:
        if name in heads and name in others:
            after, before = (each.set_index(HEAD)[name] for each in (others, heads))
            table = table.join((after - before).rename(name), on=HEAD)
    held = [_held(each) for each in (heads, others)]
    for name, having, lacking in (("gained", *held[::-1]), ("lost", *held)):
        own = [having.get(head, {}).keys() - lacking.get(head, {}).keys()
               for head in table[HEAD].itertuples(index=False, name=None)]  # fmt: skip
        table[name] = ["; ".join(sorted(each)) for each in own]
    return table.reset_index(drop=True)


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
