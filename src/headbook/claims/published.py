"""Published tables beside the claims: convergence and roles.

Studies may name closed gates themselves; these readings serve tables published without them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from headbook import tables

Made = TypeVar("Made")

RELEASED = "released"
"""Corpus name of released models."""
VERSUS = " minus "


@dataclass(frozen=True)
class Evidence:
    """The published tables in a folder, and what was found in them, each once."""

    root: Path
    _seen: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, key: object, make: Callable[[], Made]) -> Made:
        """Result of the first call of `make` for this key."""
        if key not in self._seen:
            self._seen[key] = make()
        return self._seen[key]

    def table(self, page: str, name: str) -> pd.DataFrame:
        """A published table; empty where there is none."""
        if name not in tables.entries(page, self.root):
            return pd.DataFrame()
        return tables.typed(page, name, self.root)


def curve(model: str, evidence: Evidence) -> pd.Series:
    """BLEU of a translation model by update, from page 26; empty where unknown.

    Of small models in greedy search, of longer trainings with their own beam.
    """
    every = evidence.once("curves", lambda: _curves(evidence))
    found = every[every["model"] == model] if "model" in every else every
    return found.set_index("update")["bleu"].sort_index() if len(found) else pd.Series(dtype=float)


def _curves(evidence: Evidence) -> pd.DataFrame:
    found = [evidence.table("26", name) for name in ("young", "quality")]
    found = [each.dropna(subset=["bleu"]) for each in found if len(each)]
    return pd.concat(found) if found else pd.DataFrame()


def learnt_share(model: str, evidence: Evidence) -> float | None:
    """A language model's cross-entropy over that of token frequencies, from page 31."""
    return evidence.once("learnt", lambda: _learnt(evidence.table("31", "trainings"))).get(model)


def _learnt(trainings: pd.DataFrame) -> dict[str, float]:
    if trainings.empty:
        return {}
    found = trainings.dropna(subset="test_nats").set_index("model")
    return (found["test_nats"] / found["frequency_nats"]).to_dict()


def has_role(model: str, role: str, evidence: Evidence) -> bool | None:
    """Whether a model has a head with this role (or `any`) on a text of page 11; None if unknown.

    Of `A minus B` both have to have one.
    """
    if VERSUS in model:
        both = [has_role(each, role, evidence) for each in model.split(VERSUS)]
        return None if None in both else all(both)
    counts = evidence.once("roles", lambda: evidence.table("11", "role_counts"))
    if counts.empty:
        return None
    found = counts[(counts["model"] == model) & (counts["role"] == role)]
    return None if found.empty else bool((found["count"] > 0).any())


def early_bleu(model: str, evidence: Evidence) -> float | None:
    """BLEU of the first snapshot pruned on page 23, over that of the last."""
    found = evidence.once("early", lambda: evidence.table("23", "checkpoints"))
    if found.empty:
        return None
    bleu = found[found["model"] == model].sort_values("update")["bleu"]
    return None if bleu.empty else float(bleu.iloc[0] / bleu.iloc[-1])
