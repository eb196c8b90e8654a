"""From the rows of a claim to models, their outcomes, and the verdict over them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np

from headbook.claims import gates
from headbook.claims.cells import Row
from headbook.claims.ledger import Claim, Gate, Kind, Ledger, Rows
from headbook.claims.rule import JUDGED, RANGED, Outcome, judge, margin
from headbook.statistics import LEVEL, holm, over_seeds, p_value

NUMBERS = ("value", "low", "high", "baseline")
ENOUGH_SEEDS = 3
SEED = re.compile(r" s\d+(?= |$)")


class Verdict(StrEnum):
    """Joint verdict of the models about a claim."""

    REPLICATED = "replicated"
    CONTRADICTED = "contradicted"
    MIXED = "mixed"
    INCONCLUSIVE = "inconclusive"
    ABSENT = "absent"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Judged:
    """One model's say: its number over `seeds` (1 within one model), outcome and closed gates.

    `rows` are those behind it.
    """

    model: str
    corpus: str
    row: Mapping[str, float]
    seeds: int
    outcome: Outcome
    closed: Mapping[Gate, str]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Result:
    """A claim, the outcome of each model, and the verdict over them."""

    claim: Claim
    models: tuple[Judged, ...]
    verdict: Verdict

    @property
    def uncounted(self) -> str:
        """Why the claim is not counted among the findings; empty where it is."""
        if self.claim.superseded:
            return "superseded"
        if self.claim.kind is not Kind.FINDING:
            return {Kind.IDENTITY: "identity", Kind.TEXT: "property of a text"}[self.claim.kind]
        said = [each for each in self.models if each.outcome is not Outcome.OUTSIDE]
        blunt = bool(said) and all(Gate.DIAGNOSTIC in each.closed for each in said)
        return "not diagnostic" if blunt else ""


def judged(
    ledger: Ledger, claim: Claim, rows: Iterable[Row], root: Path | None
) -> tuple[Judged, ...]:
    """The models of a claim with their outcomes, in the order of their first rows.

    Rows are as `headbook.claims.cells.rows` gives them; gates of those that name none are read from
    the published tables in `root` (data/results).
    """
    found = []
    for row in rows:
        if not ledger.applies(claim, row["corpus"]):
            found.append(_one(row, Outcome.OUTSIDE))
        elif shut := gates.closed(claim, row, root):
            found.append(_one(row, Outcome.CLOSED, shut))
        else:
            found.append(_one(row, judge(claim.rule, _numbers(row))))
    models = [_powered(claim, each) for each in _unsure(_over_seeds(claim, found))]
    return tuple(_adjusted(claim, models))


def verdict(models: Iterable[Judged]) -> Verdict:
    """The verdict of a majority: of the models judged, those that pass, fail or are undecided.

    Replicated when more than half of them pass and none fails, contradicted when more than half
    fail and none passes, mixed when some pass or fail otherwise, inconclusive when none does. A
    model outside of the claim's domain or one that is not shown to have converged does not count,
    and without one that counts the claim is not judged. Where none of those that count is judged
    it is absent when each lacks what the claim is about, else inconclusive: power and diagnosis say
    nothing of the phenomenon. A model without a number is not judged.
    """
    counted = [
        each
        for each in models
        if each.outcome is not Outcome.OUTSIDE and Gate.CONVERGED not in each.closed
    ]
    found = Counter(each.outcome for each in counted)
    passing, failing = found[Outcome.PASS], found[Outcome.FAIL]
    if not counted:
        return Verdict.NOT_JUDGED
    if passing and failing:
        return Verdict.MIXED
    if passing or failing:
        if passing + failing <= found[Outcome.UNDECIDED]:
            return Verdict.MIXED
        return Verdict.REPLICATED if passing else Verdict.CONTRADICTED
    lacking = all(Gate.PRESENT in each.closed for each in counted)
    return Verdict.ABSENT if lacking else Verdict.INCONCLUSIVE


def _one(row: Row, outcome: Outcome, closed: Mapping[Gate, str] | None = None) -> Judged:
    return Judged(row["model"], row["corpus"], _numbers(row), 1, outcome, closed or {}, (row,))


def _numbers(row: Row) -> dict[str, float]:
    return {name: float(row[name]) for name in NUMBERS}


def _over_seeds(claim: Claim, found: list[Judged]) -> list[Judged]:
    """Models that differ in their seed as one, with the interval over seeds.

    Three seeds are enough; of two the interval is as wide as it has to be, and taken only where
    there is none within the models. Models that are outside, closed or without a number stay apart.
    """
    alike: dict[object, list[Judged]] = {}
    for number, each in enumerate(found):
        (row,) = each.rows
        apart = each.outcome not in JUDGED
        named = SEED.sub("", each.model), each.corpus, row["target"]
        alike.setdefault(number if apart else named, []).append(each)
    pooled = []
    for name, models in alike.items():
        seeds = {each.rows[0]["seed"] for each in models}
        within = all(np.isfinite(each.row["low"]) for each in models)
        if len(seeds) == len(models) and len(seeds) >= (ENOUGH_SEEDS if within else 2):
            pooled.append(_pooled(claim, name[0], models))
        else:
            pooled += models
    return pooled


def _pooled(claim: Claim, name: str, models: list[Judged]) -> Judged:
    value, baseline = (np.mean([each.row[key] for each in models]) for key in ("value", "baseline"))
    # seeds differ in what they are compared with, too
    margins = over_seeds([margin(claim.rule, each.row, "value") for each in models])
    shift = value - margins.mean
    row = {"value": float(value), "low": float(margins.low + shift),
           "high": float(margins.high + shift), "baseline": float(baseline)}  # fmt: skip
    rows = tuple(each.rows[0] for each in models)
    return Judged(name, models[0].corpus, row, len(models), judge(claim.rule, row), {}, rows)


def _unsure(models: list[Judged]) -> list[Judged]:
    """A single number decides nothing where others show that seeds spread."""
    if all(each.seeds == 1 for each in models):
        return models
    return [
        replace(each, outcome=Outcome.UNDECIDED)
        if each.outcome in JUDGED and not np.isfinite(each.row["low"])
        else each
        for each in models
    ]


def _powered(claim: Claim, model: Judged) -> Judged:
    if model.outcome not in JUDGED or not gates.weak(claim, model.row):
        return model
    half = (model.row["high"] - model.row["low"]) / 2
    told = f"an interval of ±{half:.2g} cannot tell an effect of {claim.effect:g}"
    return replace(model, outcome=Outcome.CLOSED, closed={Gate.POWER: told})


def _adjusted(claim: Claim, models: list[Judged]) -> list[Judged]:
    """Settings of one model are tested together: those decided have to stay so after Holm."""
    if claim.rows is Rows.MODELS or claim.rule.test in RANGED:
        return models
    tested = [each for each in models if each.outcome in JUDGED and np.isfinite(each.row["low"])]
    p_values = [
        p_value(
            *(margin(claim.rule, each.row, name) for name in ("value", "low", "high")),
            claim.rule.threshold,
            each.seeds if each.seeds > 1 else claim.seeds,
        )
        for each in tested
    ]
    luck = [id(each) for each, p in zip(tested, holm(p_values), strict=True) if p >= 1 - LEVEL]
    return [
        replace(each, outcome=Outcome.UNDECIDED) if id(each) in luck else each for each in models
    ]
