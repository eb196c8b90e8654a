"""Closed gates of a claim for a model, with reasons."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from headbook.claims.ledger import Claim, Gate
from headbook.claims.published import (
    RELEASED,
    Evidence,
    curve,
    early_bleu,
    has_role,
    learnt_share,
)
from headbook.types import UserError

LAST_SIXTH = 1.2
"""A model that has converged was as good when a fifth more updates were still to come."""
SMALL_BLEU = 0.25
LEARNT = 0.9
"""A text counts as learnt when cross-entropy is a tenth below that of token frequencies."""
NONE = "none"
EARLY = 0.1
"""A snapshot with less than this share of the last BLEU has learnt nothing that could be pruned."""


def closed(claim: Claim, row: Mapping, evidence: Evidence) -> dict[Gate, str]:
    """The closed gates of a row of a claims table and the reason for each, in the ledger's words.

    A row that names its closed gates in a column `closed`, or `none`, is taken at its word; for one
    that does not, published tables tell. `power` is not among them: it is of the interval (`weak`).
    """
    if isinstance(named := row.get("closed"), str) and named.strip():
        return parsed(named)
    found = {gate: _CLOSED[gate](claim, row, evidence) for gate in _CLOSED if gate in claim.gates}
    return {gate: reason for gate, reason in found.items() if reason}


def parsed(named: str) -> dict[Gate, str]:
    """The cell of a claims table, `present: no rare-word head; converged`, as gates and reasons.

    `none` is no gate. UserError for an unknown one.
    """
    if named.strip() == NONE:
        return {}
    pairs = [part.partition(":") for part in named.split(";") if part.strip()]
    known = ", ".join(Gate)
    for name, _, _ in pairs:
        if name.strip() not in list(Gate):
            raise UserError(f"closed: {name.strip()!r} is no gate; use one of {known}")
    return {Gate(name.strip()): reason.strip() for name, _, reason in pairs}


def weak(claim: Claim, row: Mapping[str, float]) -> bool:
    """Whether half of the interval is more than half of the effect that the work reports."""
    half = (row["high"] - row["low"]) / 2
    return Gate.POWER in claim.gates and not half <= abs(claim.effect) / 2


def _converged(claim: Claim, row: Mapping, evidence: Evidence) -> str:
    if row.get("corpus") == RELEASED:
        return ""
    model = row["model"]
    if (share := learnt_share(model, evidence)) is not None:
        told = f"has not learnt its text: {share:.0%} of the cross-entropy of token frequencies"
        return told if share > LEARNT else ""
    change = moved(model, evidence)
    if change is None:
        return "not shown to have converged"
    if change < SMALL_BLEU:
        return ""
    return f"not converged: its last updates still moved BLEU by {change:.1f}"


def moved(model: str, evidence: Evidence) -> float | None:
    """Change of a translation model's BLEU over its last sixth of updates; None where unknown.

    Below SMALL_BLEU it has converged.
    """
    change = over_last_sixth(curve(model, evidence))
    return None if change is None else abs(change)


def over_last_sixth(values: pd.Series) -> float | None:
    """Change of a curve, indexed by update, over the last sixth of its updates, or a longer part.

    None where it has no value before these.
    """
    earlier = values[values.index <= max(values.index, default=0) / LAST_SIXTH]
    return None if earlier.empty else float(values.iloc[-1] - earlier.iloc[-1])


def _present(claim: Claim, row: Mapping, evidence: Evidence) -> str:
    if np.isnan(row["value"]):
        return "no number, as it has nothing of the kind"
    if claim.id == "michel-f5-early-heads-equal":
        share = early_bleu(row["model"], evidence)
        told = "its first snapshot has learnt nothing"
        return told if share is not None and share < EARLY else ""
    if claim.role is None:
        return ""
    there = has_role(row["model"], claim.role, evidence)
    named = {"any": "head with a role", "rare": "rare-word head"}.get(
        claim.role, f"{claim.role} head"
    )
    return "" if there else f"no {named}" if there is False else f"not known to have a {named}"


_CLOSED: dict[Gate, Callable[[Claim, Mapping, Evidence], str]] = {
    Gate.CONVERGED: _converged,
    Gate.PRESENT: _present,
}
