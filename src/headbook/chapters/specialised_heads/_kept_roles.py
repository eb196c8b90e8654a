"""Roles of encoder heads that a sweep retains, before and after (Voita et al. 2019, Figure 8)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from headbook.artefacts.model import Size
from headbook.artefacts.pruned import keeping, some_but_not_all
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measure, text_of
from headbook.chapters.specialised_heads._head_tables import head_scores, role_rows
from headbook.chapters.specialised_heads._pruned_tables import Sweep
from headbook.heads.positional import Place
from headbook.heads.roles import DRAWING_ORDER, Thresholds
from headbook.runs.store import Store
from headbook.statistics import permuted_gap
from headbook.types import Kind

NEARNESS = "nearness"
SCORES = (*map(str, Place), "margin", "rare", "confidence", NEARNESS)
"""Quantities compared between retained and closed heads.

Nearness is the largest of the scores that make a role, each over its threshold: the own token and
offsets farther than the neighbour are none.
"""
THRESHOLDS = Thresholds()
NO_ROLE = "none"
Grid = Float[np.ndarray, " head"]


@dataclass(frozen=True)
class Survival:
    """One encoder-only sweep and what its heads did before pruning."""

    sweep: Sweep
    before: Measurement

    @cached_property
    def scores(self) -> pd.DataFrame:
        return encoder_scores(self.before, self.sweep.base.run.size)

    @cached_property
    def kept(self) -> Bool[np.ndarray, "point head"]:
        """Of the points that keep some encoder heads, but not all."""
        return some_but_not_all(self._every).reshape(-1, len(self.scores))

    @property
    def _every(self) -> Bool[np.ndarray, "point kind layer head"]:
        closed = [each.closed_heads for each in self.sweep.learned]
        return keeping(closed, (Kind.ENCODER,), self.sweep.base.run.size)

    @property
    def blocks(self) -> list[int]:
        """The layer of every head."""
        return self.scores.index.get_level_values("layer").tolist()

    def specialised_gap(self) -> Float[np.ndarray, " replicate"]:
        """Share kept of the heads with a role before pruning, minus that of the heads without.

        Replicates are of the roles permuted over the heads.
        """
        roles = role_rows(self.before).query("held")
        held = set(zip(roles["layer"], roles["head"], strict=True))
        has_role = np.array([head in held for head in self.scores.index])
        shares = self.kept.mean(axis=0) if len(self.kept) else np.full(len(has_role), np.nan)
        return permuted_gap(shares, has_role)

    def score(self, name: str) -> Grid:
        return self.scores[name].to_numpy()


def encoder_scores(measurement: Measurement, size: Size) -> pd.DataFrame:
    """One row per encoder head, layer by layer, and a column per score; NaN where it has none."""
    grid = pd.MultiIndex.from_product(
        [range(1, size.layers + 1), range(1, size.heads + 1)], names=["layer", "head"]
    )
    found = head_scores(measurement).query("kind == 'encoder'").set_index(["layer", "head"])
    scores = found[list(SCORES[:-1])].reindex(grid).astype(float)
    nearness = pd.DataFrame(
        {
            "neighbour": scores[Place.NEIGHBOUR] / THRESHOLDS.positional,
            "margin": scores["margin"] / THRESHOLDS.syntactic_margin,
            "rare": scores["rare"] / THRESHOLDS.rare,
        }
    )
    return scores.assign(**{NEARNESS: nearness.max(axis=1)})


def survival(sweep: Sweep, config: Config, store: Store) -> Survival:
    """The sweep with the trained model's heads measured on held-out sentences."""
    text = text_of(sweep.base, HELD_OUT, config, store)
    return Survival(sweep, measure(sweep.base, text, store))


def function_rows(found: Survival, store: Store) -> pd.DataFrame:
    """One row per model: how many kept encoder heads have which role in it, and in none.

    A head with several counts for the first in drawing order. `new` heads have a role that they had
    not before pruning; the means are of the kept heads' scores.
    """
    old, sweep = _held(found.before), found.sweep
    rows = []
    for each in (sweep.before, sweep.further, *sweep.learned):
        whole = each is sweep.before
        now = found.before if whole else measure(each.made, found.before.text, store)
        kept = keeping([each.closed_heads], (Kind.ENCODER,), sweep.base.run.size).ravel()
        scores = encoder_scores(now, sweep.base.run.size)[kept]
        rows.append(
            {**sweep.labels, "arm": each.arm, "penalty": each.penalty, "kept": int(kept.sum()),
             "of": sweep.heads, **_functions(_held(now), old, set(scores.index)),
             **{f"mean_{name}": float(scores[name].mean()) for name in SCORES}}
        )  # fmt: skip
    return pd.DataFrame(rows)


def _functions(
    roles: pd.DataFrame, old: pd.DataFrame, kept: set[tuple[int, int]]
) -> dict[str, int]:
    """Counts over the kept heads."""
    among = [head in kept for head in zip(roles["layer"], roles["head"], strict=True)]
    roles = roles[np.array(among, dtype=bool)]
    first = roles.sort_values("order").drop_duplicates(["layer", "head"])
    fresh = roles.merge(old, how="left", indicator=True).query("_merge == 'left_only'")
    return {
        **{str(role): int((first["role"] == role).sum()) for role in DRAWING_ORDER},
        NO_ROLE: len(kept) - len(first),
        "several": int(roles.groupby(["layer", "head"]).size().gt(1).sum()),
        "new": len(fresh.drop_duplicates(["layer", "head"])),
    }


def _held(measurement: Measurement) -> pd.DataFrame:
    """The roles that heads hold, with their place in the drawing order."""
    rows = role_rows(measurement).query("held")[["layer", "head", "role", "detail"]]
    order = {str(role): number for number, role in enumerate(DRAWING_ORDER)}
    return rows.assign(order=rows["role"].map(order).astype(int)).reset_index(drop=True)
