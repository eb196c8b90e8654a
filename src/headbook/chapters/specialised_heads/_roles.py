"""Roles of every encoder head of a released model on a treebank, in every bootstrap replicate."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.chapters.specialised_heads._released import Reading
from headbook.claims.ledger import load as ledger
from headbook.heads.confidence import Confidence
from headbook.heads.measure import BestHead, HeadMeasure, RatioSums, best_head, percentiles
from headbook.heads.offset_baseline import OffsetShare, offset_accuracies, offset_baseline
from headbook.heads.positional import REACH, Place, PositionalShare, at_place
from headbook.heads.rare import RareChance, RareShare
from headbook.heads.roles import Role, Thresholds, held_roles
from headbook.heads.syntactic import SyntacticAccuracy, best_accuracies
from headbook.heads.tag_rules import TagRuleShare, tag_baseline
from headbook.looking.passes import ranks_in
from headbook.statistics import interval
from headbook.trees import RELATION_DIRECTIONS
from headbook.types import Kind

PAPER_ROLES = pd.DataFrame({
    "target": ["Russian (OpenSubtitles)", "German (WMT)", "French (WMT)"],
    "positional": [5, 5, 4], "syntactic": [8, 9, 7], "rare": [1, 1, 1], "any": [14, 15, 12],
    "heads": [48, 48, 48],
})  # fmt: skip
"""Heads with each role in the paper's Figures 1c and 2, counted there by eye."""

NAMES = (
    "verb → subject", "subject → verb", "verb → object", "object → verb",
    "noun → adjective", "adjective → noun", "verb → adverb", "adverb → verb",
)  # fmt: skip
"""The relation-directions in words, in the order of RELATION_DIRECTIONS."""
PREVIOUS, NEXT, RAREST = "previous token", "next token", "two rarest tokens"
ONE_OF_TWO = 1
"""Column of the rare-word measure: at one of the two rarest."""
THRESHOLDS = Thresholds()


@dataclass(frozen=True)
class Roles:
    """The role measures of one model on one text.

    Replicate 0 is all sentences. A head has a role by the thresholds of Voita et al. 2019, applied
    to all sentences: 0.90 at -1 or +1, ten points above the best offset, half at rare tokens.
    """

    reading: Reading
    sums: dict[str, RatioSums]

    @classmethod
    def of(cls, reading: Reading) -> "Roles":
        """Measured in one pass; frequency ranks are of the text's own tokens."""
        return cls(reading, reading.sums(role_measures(reading)))

    @property
    def held(self) -> dict[Role, Bool[Tensor, "replicate layer head"]]:
        """Heads with each role."""
        return self.held_on(None)

    def held_on(self, half: int | None) -> dict[Role, Bool[Tensor, "replicate layer head"]]:
        """The same on the sentences of one half, 0 or 1, or on all."""
        names = ("positional", "syntactic", "offsets", "rare")
        return held_roles(*(self.sums[name].replicates(half) for name in names))

    def counts(self) -> Iterator[dict[str, object]]:
        """Number of encoder heads with each role and with any, with intervals over sentences."""
        held = self.held
        heads = held[Role.RARE][0].numel()
        for name, each in (held | {"any": torch.stack(list(held.values())).any(0)}).items():
            count, low, high = interval(each.double().sum((1, 2)))
            yield {"role": str(name), "count": int(count), "low": low, "high": high,
                   "heads": heads, **self.reading.labels}  # fmt: skip

    @property
    def nearness(self) -> Float[Tensor, "replicate layer head"]:
        """The largest of a head's scores over the thresholds of roles; at 1 it has a role."""
        neighbour = at_place(self.sums["positional"].replicates(), Place.NEIGHBOUR).amax(-1)
        margin = self._over_offset.amax(-1)
        rare = self.sums["rare"].replicates()[..., ONE_OF_TWO]
        scores = (neighbour / THRESHOLDS.positional, margin / THRESHOLDS.syntactic_margin,
                  rare / THRESHOLDS.rare)  # fmt: skip
        # A text too short for a relation or for rare words says nothing of that role.
        return torch.stack(scores).nan_to_num(nan=-torch.inf).amax(0)

    @property
    def margins(self) -> Float[Tensor, "replicate column"]:
        """Best head minus best offset, chosen on one half of the sentences, scored on the other."""
        return best_accuracies(self.sums["syntactic"]) - offset_accuracies(self.sums["offsets"])

    @property
    def _over_offset(self) -> Float[Tensor, "replicate layer head column"]:
        """Every head's lead over the best offset; minus infinity where nothing was asked."""
        best = self.sums["offsets"].replicates().nan_to_num(-1).amax(1)
        over = self.sums["syntactic"].replicates() - best[:, None, None]
        return over.nan_to_num(nan=-torch.inf)

    def best(self) -> pd.DataFrame:
        """One row per role: the best head, chosen on one half and scored on the other.

        `baseline` is the best fixed offset for relations, and for rare tokens a head that points
        everywhere; `rule` the best part-of-speech rule; `over` the head's lead over the baseline.
        """
        rows = [*self._neighbours(), *self._relations(), self._rare()]
        return pd.DataFrame(rows).assign(**self.reading.labels)

    def _neighbours(self) -> Iterator[dict[str, object]]:
        best, reach = best_head(self.sums["positional"]), _reach(self.sums["positional"])
        for name, offset in ((PREVIOUS, -1), (NEXT, 1)):
            yield {"role": name, **_of(best, reach + offset)}

    def _relations(self) -> Iterator[dict[str, object]]:
        best, offset = best_head(self.sums["syntactic"]), offset_baseline(self.sums["offsets"])
        rule, margins = tag_baseline(self.sums["tags"]), self.margins
        low, high = percentiles(margins[1:])
        for column, name in enumerate(NAMES):
            yield {
                "role": name, **_of(best, column), "baseline": float(offset.accuracy[column]),
                "rule": float(rule.accuracy[column]), "over": float(margins[0, column]),
                "over_low": float(low[column]), "over_high": float(high[column]),
            }  # fmt: skip

    def _rare(self) -> dict[str, object]:
        best = best_head(self.sums["rare"])
        chance = float(self.sums["rare_chance"].ratio(1)[0, 0, ONE_OF_TWO])
        return {"role": RAREST, **_of(best, ONE_OF_TWO), "baseline": chance}

    def heads(self) -> pd.DataFrame:
        """One row per head: scores on all sentences, and the role it has, "none" for most."""
        reach = _reach(self.sums["positional"])
        positional = self.sums["positional"].ratio()
        over, nearness = self._over_offset[0], self.nearness[0]
        held = {role: each[0] for role, each in self.held.items()}
        rows = []
        for layer, head in torch.cartesian_prod(*map(torch.arange, positional.shape[:2])).tolist():
            at = (layer, head)
            margin, relation = over[at].max(0)
            row = {
                "layer": layer + 1, "head": head + 1,
                "confidence": float(self.sums["confidence"].ratio()[at]),
                "previous": float(positional[at][reach - 1]),
                "next": float(positional[at][reach + 1]),
                "own": float(positional[at][reach]),
                "relation": NAMES[relation], "margin": float(margin),
                "rare": float(self.sums["rare"].ratio()[at][ONE_OF_TWO]),
                "nearness": float(nearness[at]),
            }  # fmt: skip
            rows.append(row | {"role": _named(row, {r for r, each in held.items() if each[at]})})
        return pd.DataFrame(rows).assign(**self.reading.labels)


def role_measures(reading: Reading, replicates: int | None = None) -> dict[str, HeadMeasure]:
    """Measures behind the roles of a reading's heads; without replicates for null networks."""
    ranks = ranks_in(reading.batches)
    some = {} if replicates is None else {"replicates": replicates}
    return {
        "confidence": Confidence(Kind.ENCODER, **some),
        "positional": PositionalShare(Kind.ENCODER, **some),
        "syntactic": SyntacticAccuracy(reading.trees, **some),
        "offsets": OffsetShare(reading.trees, **some),
        "tags": TagRuleShare(reading.trees, **some),
        "rare": RareShare(ranks, **some),
        "rare_chance": RareChance(ranks, **some),
    }


def null_measures(reading: Reading) -> dict[str, HeadMeasure]:
    """The measures that read weights, without replicates."""
    return {name: each for name, each in role_measures(reading, replicates=0).items()
            if name in ("positional", "syntactic", "rare")}  # fmt: skip


def columns_of(role: str) -> tuple[str, int]:
    """The measure that a role of `Roles.best` is read from, and its column."""
    if role in (PREVIOUS, NEXT):
        return "positional", REACH + (1 if role == NEXT else -1)
    return ("rare", ONE_OF_TWO) if role == RAREST else ("syntactic", NAMES.index(role))


def _named(row: dict, held: set[Role]) -> str:
    """The role by the palette's names; neighbours first, as in the paper's legend."""
    if Role.POSITIONAL in held:
        return PREVIOUS if row["previous"] >= row["next"] else NEXT
    if Role.SYNTACTIC in held:
        return "syntactic"
    return "rare words" if Role.RARE in held else "none"


def _of(best: BestHead, column: int) -> dict[str, object]:
    return {
        "layer": int(best.layer[column]) + 1, "head": int(best.head[column]) + 1,
        "value": float(best.score[column]), "low": float(best.low[column]),
        "high": float(best.high[column]),
    }  # fmt: skip


def _reach(sums: RatioSums) -> int:
    """Index of offset zero."""
    return sums.ratio().shape[-1 if sums.ratio().ndim == 3 else 0] // 2


def paper_accuracies() -> pd.DataFrame:
    """Table 1 of the paper, from the ledger: relation, text, value, baseline."""
    rows = []
    for name, (relation, direction) in zip(NAMES, RELATION_DIRECTIONS, strict=True):
        claim = ledger().claim(f"voita-t1-{relation}-{direction.replace('_', '-')}")
        rows += [{"relation": name, "text": each.of, "value": each.values[0],
                  "baseline": each.baseline} for each in claim.paper]  # fmt: skip
    return pd.DataFrame(rows)
