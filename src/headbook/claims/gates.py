"""Closed gates of a claim for a model, with reasons.

A study may name some itself. Tables published beside it tell of others: how BLEU moved at the end
of a training, what a language model has learnt, which heads have a role.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from headbook import tables
from headbook.claims.ledger import Claim, Gate
from headbook.types import UserError

RELEASED = "released"
"""Corpus name of released models."""
LAST_SIXTH = 1.2
"""A model that has converged was as good when a fifth more updates were still to come."""
SMALL_BLEU = 0.25
LEARNT = 0.9
"""A text counts as learnt when cross-entropy is a tenth below that of token frequencies."""
NONE = "none"
EARLY = 0.1
"""A snapshot with less than this share of the last BLEU has learnt nothing that could be pruned."""
VERSUS = " minus "


def closed(claim: Claim, row: Mapping, root: Path | None = None) -> dict[Gate, str]:
    """The closed gates of a row of a claims table and the reason for each, in the ledger's words.

    Those that the row names in a column `closed` (`none` is none), and those that the published
    tables in `root` (data/results) tell of. Whether a model has converged they are not asked where
    the page tests it itself: the row says so much, and the claim has `settled`. `power` is not
    among them: it is of the interval (`weak`).
    """
    said = isinstance(named := row.get("closed"), str) and named.strip()
    found = parsed(named) if said else {}
    trusted = row.get("corpus") == RELEASED or (said and claim.settled)
    if Gate.CONVERGED in claim.gates - set(found) and not trusted:
        published = [each for page in ("26", "31") for each in tables.entries(page, root).values()]
        digests = tuple(each["sha256"] for each in published)
        found[Gate.CONVERGED] = _not_converged(row["model"], root, digests)
    if Gate.PRESENT in claim.gates - set(found):
        found[Gate.PRESENT] = _lacking(claim, row, root)
    return {gate: reason for gate, reason in found.items() if reason is not None}


def parsed(named: str) -> dict[Gate, str]:
    """The cell of a claims table, `present: no rare-word head; converged`, as gates and reasons.

    `none` is no gate. UserError for an unknown one.
    """
    if named.strip() == NONE:
        return {}
    pairs = [part.partition(":") for part in named.split(";") if part.strip()]
    try:
        return {Gate(name.strip()): reason.strip() for name, _, reason in pairs}
    except ValueError as fault:
        raise UserError(f"closed: {fault}; use one of {', '.join(Gate)}") from None


def weak(claim: Claim, row: Mapping[str, float]) -> bool:
    """Whether half of the interval is more than half of the effect that the work reports."""
    half = (row["high"] - row["low"]) / 2
    return Gate.POWER in claim.gates and not half <= abs(claim.effect) / 2


def over_last_sixth(values: pd.Series) -> float | None:
    """Change of a curve, indexed by update, over the last sixth of its updates, or a longer part.

    None where it has no value before these.
    """
    earlier = values[values.index <= max(values.index, default=0) / LAST_SIXTH]
    return None if earlier.empty else float(values.iloc[-1] - earlier.iloc[-1])


@cache
def _not_converged(model: str, root: Path | None, digests: tuple[str, ...]) -> str | None:
    """Of a language model by its loss, from page 31; of a translator by its BLEU, from page 26.

    Asked once for each model, as long as the digests of these pages' tables stay.
    """
    losses = _of(model, "31/trainings", root, "test_nats", "frequency_nats").dropna()
    if len(losses):
        share = (losses["test_nats"] / losses["frequency_nats"]).iloc[-1]
        told = f"has not learnt its text: {share:.0%} of the cross-entropy of token frequencies"
        return told if share > LEARNT else None
    young, quality = (
        _of(model, f"26/{name}", root, "update", "bleu") for name in ("young", "quality")
    )
    bleu = (quality if young.empty else young).dropna().set_index("update")["bleu"]
    change = over_last_sixth(bleu.sort_index())
    if change is None:
        return "not shown to have converged"
    told = f"not converged: its last updates still moved BLEU by {abs(change):.1f}"
    return told if abs(change) >= SMALL_BLEU else None


def _lacking(claim: Claim, row: Mapping, root: Path | None) -> str | None:
    if np.isnan(row["value"]):
        return "no number, as it has nothing of the kind"
    if claim.id == "michel-f5-early-heads-equal":
        snapshots = _of(row["model"], "23/checkpoints", root, "update", "bleu")
        bleu = snapshots.sort_values("update")["bleu"]
        nothing = len(bleu) and bleu.iloc[0] / bleu.iloc[-1] < EARLY
        return "its first snapshot has learnt nothing" if nothing else None
    if claim.role is None:
        return None
    named = {"any": "head with a role", "rare": "rare-word head"}
    head = named.get(claim.role, f"{claim.role} head")
    for model in row["model"].split(VERSUS):  # both have to have one
        counts = _of(model, "11/role_counts", root, "role", "count")
        counts = counts[counts["role"] == claim.role]["count"]
        if not (counts > 0).any():
            return f"no {head}" if len(counts) else f"not known to have a {head}"
    return None


def _of(model: str, table: str, root: Path | None, *columns: str) -> pd.DataFrame:
    """These columns of the model's rows; none where there is no such published table."""
    page, name = table.split("/")
    if name not in tables.entries(page, root):
        return pd.DataFrame(columns=columns)
    found = tables.typed(page, name, root)
    return found.loc[found["model"] == model, list(columns)]
