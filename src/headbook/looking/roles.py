"""`hb.roles`: which heads have which role, by the thresholds of the works that named them."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from headbook.heads.measure import RatioSums, Selection
from headbook.heads.offset_baseline import offset_baseline
from headbook.heads.roles import Thresholds
from headbook.heads.tag_rules import tag_baseline
from headbook.looking.measured import Measured, measured
from headbook.looking.table import ONE_OF_TWO, RELATIONS, part
from headbook.types import Kind

PREVIOUS, NEXT = "previous token", "next token"
SYNTACTIC, RARE = "syntactic", "rare words"
CHOSEN_ON, SCORED_ON = 0, 1
"""Halves of the sentences, see heads/bootstrap.py."""
PAPER = "Voita et al. 2019"
COLUMNS = (
    "kind", "layer", "head", "role", "detail", "score", "low", "high", "threshold", "baseline",
    "tag_rule", "null", "chosen", "held", "source",
)  # fmt: skip


@dataclass(frozen=True)
class _Candidate:
    """One role that every head of a kind is tried for."""

    kind: Kind
    role: str
    detail: str
    sums: RatioSums
    thresholds: tuple[float, float]  # on the half where it is chosen, and where it is scored
    baseline: float
    tag_rule: float
    null: float
    source: str


def roles(heads: pd.DataFrame, held: bool = True) -> pd.DataFrame:
    """The roles of a table from `hb.measure`, one row per head and role, best scores first.

    A head has a role when it reaches the threshold on one half of the sentences, on which it is
    chosen, and again on the other half, on which it is scored; baselines are chosen and scored on
    the same halves. A head may have several roles. `held=False` returns every head and candidate.

    kind, layer, head: encoder, decoder or cross; layer and head from 1
    role: "previous token", "next token", "syntactic" or "rare words"
    detail: the offset, the relation and direction, or "one of two rarest"
    score, low, high: on the second half, with a 95 % bootstrap interval over its sentences
    threshold: the score required on both halves
    baseline: best fixed offset (syntactic), or a uniform head (rare words)
    tag_rule: best part-of-speech rule, which no threshold uses
    null: largest score of any head of null networks with permuted or redrawn weights
    chosen: the score on the first half
    held: whether both scores reach their thresholds
    source: where the threshold comes from

    UserError for a table that `hb.measure` did not return.
    """
    rows = [row for each in _candidates(measured(heads)) for row in _rows(each)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    order = ["role", "detail", "score"]
    table = table.sort_values(order, ascending=[True, True, False], na_position="last")
    return (table[table["held"]] if held else table).reset_index(drop=True)


def _rows(candidate: _Candidate) -> Iterator[dict]:
    """One row per head."""
    chosen, score = (candidate.sums.ratio(half) for half in (CHOSEN_ON, SCORED_ON))
    low, high = candidate.sums.interval(half=SCORED_ON)
    first, second = candidate.thresholds
    for layer in range(score.shape[0]):
        for head in range(score.shape[1]):
            at = (layer, head)
            yield {
                "kind": str(candidate.kind),
                "layer": layer + 1,
                "head": head + 1,
                "role": candidate.role,
                "detail": candidate.detail,
                "score": float(score[at]),
                "low": float(low[at]),
                "high": float(high[at]),
                "threshold": second,
                "baseline": candidate.baseline,
                "tag_rule": candidate.tag_rule,
                "null": candidate.null,
                "chosen": float(chosen[at]),
                "held": bool(chosen[at] >= first and score[at] >= second),
                "source": candidate.source,
            }


def _candidates(of: Measured) -> Iterator[_Candidate]:
    thresholds = Thresholds()
    for kind, sums in of.sums.items():
        if kind is not Kind.CROSS:  # a neighbour is one of the same sentence
            yield from _positional(of, kind, sums["positional"], thresholds)
        if "syntactic" in sums:
            yield from _syntactic(of, thresholds)
        if "rare" in sums:
            yield _rare(of, sums, thresholds)


def _positional(
    of: Measured, kind: Kind, sums: RatioSums, thresholds: Thresholds
) -> Iterator[_Candidate]:
    reach, mark = sums.numerator.shape[-1] // 2, thresholds.positional
    for role, offset in ((PREVIOUS, -1), (NEXT, 1)):
        null = _null(of, kind, "positional", reach + offset)
        source = f"{PAPER}, section 5.1: 90 %"
        yield _Candidate(kind, role, f"{offset:+d}", part(sums, reach + offset), (mark, mark),
                         torch.nan, torch.nan, null, source)  # fmt: skip


def _syntactic(of: Measured, thresholds: Thresholds) -> Iterator[_Candidate]:
    sums = of.sums[Kind.ENCODER]
    offsets = offset_baseline(sums["offsets"], Selection.HALVES)
    tags = tag_baseline(sums["tags"], Selection.HALVES) if "tags" in sums else None
    for column, name in enumerate(RELATIONS):
        marks = (offsets.chosen[column], offsets.accuracy[column])
        first, second = (float(mark) + thresholds.syntactic_margin for mark in marks)
        yield _Candidate(
            kind=Kind.ENCODER,
            role=SYNTACTIC,
            detail=name,
            sums=part(sums["syntactic"], column),
            thresholds=(first, second),
            baseline=float(offsets.accuracy[column]),
            tag_rule=torch.nan if tags is None else float(tags.accuracy[column]),
            null=_null(of, Kind.ENCODER, "syntactic", column),
            source=f"{PAPER}, section 5.2: 10 points above the best offset",
        )


def _rare(of: Measured, sums: dict[str, RatioSums], thresholds: Thresholds) -> _Candidate:
    mark = thresholds.rare
    chance: Tensor = sums["rare_chance"].ratio(SCORED_ON)[..., ONE_OF_TWO]
    null = _null(of, Kind.ENCODER, "rare", ONE_OF_TWO)
    source = f"ours: 50 %; {PAPER}, section 5.3, has no threshold"
    return _Candidate(Kind.ENCODER, RARE, "one of two rarest", part(sums["rare"], ONE_OF_TWO),
                      (mark, mark), float(chance), torch.nan, null, source)  # fmt: skip


def _null(of: Measured, kind: Kind, measure: str, column: int) -> float:
    """The largest value over heads of null networks; NaN where none were measured."""
    if of.nulls is None or measure not in of.nulls.values or kind is not next(iter(of.sums)):
        return torch.nan
    return float(of.nulls.largest(measure)[column])
