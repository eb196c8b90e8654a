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
    """What published tables tell, each thing read once.

    `folder` is the folder of results and, as its last part, the profile.
    """

    folder: Path
    _seen: dict[object, Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, key: object, make: Callable[[], Made]) -> Made:
        """Result of the first call of `make` for this key."""
        if key not in self._seen:
            self._seen[key] = make()
        return self._seen[key]


def curve(model: str, evidence: Evidence) -> pd.Series:
    """BLEU of a translation model by update, from page 26; empty where unknown.

    Of small models in greedy search, of longer trainings with their own beam.
    """
    every = evidence.once("curves", lambda: _curves(evidence.folder.parent))
    found = every[every["model"] == model] if "model" in every else every
    return found.set_index("update")["bleu"].sort_index() if len(found) else pd.Series(dtype=float)


def _curves(root: Path) -> pd.DataFrame:
    known = tables.entries("26", root)
    found = [tables.typed("26", name, root) for name in ("young", "quality") if name in known]
    return pd.concat(found).dropna(subset=["bleu"]) if found else pd.DataFrame()


def learnt_share(model: str, evidence: Evidence) -> float | None:
    """A language model's cross-entropy over that of token frequencies, from page 31."""
    shares = evidence.once("learnt", lambda: _learnt(evidence.folder.parent))
    return shares.get(model)


def _learnt(root: Path) -> dict[str, float]:
    if "trainings" not in tables.entries("31", root):
        return {}
    found = tables.typed("31", "trainings", root).dropna(subset="test_nats").set_index("model")
    return (found["test_nats"] / found["frequency_nats"]).to_dict()


def has_role(model: str, role: str, evidence: Evidence) -> bool | None:
    """Whether a model has a head with this role (or `any`) on a text of page 11; None if unknown.

    Of `A minus B` both have to have one.
    """
    if VERSUS in model:
        both = [has_role(each, role, evidence) for each in model.split(VERSUS)]
        return None if None in both else all(both)
    counts = evidence.once("roles", lambda: _role_counts(evidence.folder.parent))
    found = counts[(counts["model"] == model) & (counts["role"] == role)]
    return None if found.empty else bool((found["count"] > 0).any())


def _role_counts(root: Path) -> pd.DataFrame:
    """Page 11's table of how many heads have each role; without rows where it has none."""
    if "role_counts" in tables.entries("11", root):
        return tables.typed("11", "role_counts", root)
    return pd.DataFrame(columns=["model", "role", "count"])


def early_bleu(model: str, evidence: Evidence) -> float | None:
    """BLEU of the first snapshot pruned on page 23, over that of the last."""
    root = evidence.folder.parent
    if "checkpoints" not in tables.entries("23", root):
        return None
    found = tables.typed("23", "checkpoints", root)
    bleu = found[found["model"] == model].sort_values("update")["bleu"]
    return None if bleu.empty else float(bleu.iloc[0] / bleu.iloc[-1])
