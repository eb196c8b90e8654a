"""Each outcome and each verdict is reached by a planted table."""

from dataclasses import replace

import numpy as np
import pytest

from headbook.claims.ledger import Gate, Ledger, Rows, load
from headbook.claims.rule import Comparison, Outcome, Rule
from headbook.claims.verdict import Judged, Verdict, judged, verdict
from headbook.statistics import over_seeds

NAN = float("nan")
KNOWN = load().claim("voita-t1-dobj-head-to-dependent")
OPEN = {"gates": frozenset(), "domain": "short", "effect": None, "role": None}
SHORT = replace(KNOWN, rule=Rule(Comparison.AT_LEAST, threshold=0.8), **OPEN)
LEDGER = Ledger((SHORT,), {}, {"short": ("tatoeba",)})
PASSING = ("m", 0, 0.85, 0.81, 0.9)


def table(*rows, corpus="tatoeba-de", closed=None):
    """Rows of (model, seed, value, low, high)."""
    labels = {"corpus": corpus, "target": "de", "baseline": NAN, "closed": closed}
    names = ("model", "seed", "value", "low", "high")
    return [labels | dict(zip(names, row, strict=True)) | {"seed": str(row[1])} for row in rows]


def models(*outcomes, gate=Gate.PRESENT):
    """Models with these outcomes; those that are not applicable have the gate closed."""
    row = dict.fromkeys(("value", "low", "high", "baseline"), NAN)
    shut = {gate: "why"}
    return [
        Judged(f"m{n}", "c", row, 1, outcome, shut if outcome is Outcome.CLOSED else {}, ({},))
        for n, outcome in enumerate(outcomes)
    ]


P, F, U, C, N, X = Outcome


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([P, P, U], Verdict.REPLICATED),
        ([P, U], Verdict.MIXED),
        ([P, C, N], Verdict.REPLICATED),
        ([F, F, U], Verdict.CONTRADICTED),
        ([F, U], Verdict.MIXED),
        ([P, P, P, F], Verdict.MIXED),
        ([U, C], Verdict.INCONCLUSIVE),
        ([], Verdict.NOT_JUDGED),
        ([X], Verdict.NOT_JUDGED),
        ([X, X, P, U, P], Verdict.REPLICATED),
        ([X, C], Verdict.ABSENT),
    ],
)
def test_the_table_of_verdicts(outcomes, expected):
    assert verdict(models(*outcomes)) is expected


def test_only_a_model_that_lacks_the_phenomenon_makes_it_absent():
    """One that has not converged neither counts nor lacks anything."""
    shut = {gate: models(C, C, gate=gate) for gate in Gate}
    told = {Gate.PRESENT: Verdict.ABSENT, Gate.CONVERGED: Verdict.NOT_JUDGED}
    assert all(verdict(each) is told.get(gate, Verdict.INCONCLUSIVE) for gate, each in shut.items())
    young, absent = shut[Gate.CONVERGED], shut[Gate.PRESENT]
    assert verdict([*young, *absent]) is Verdict.ABSENT
    assert verdict([*young, *shut[Gate.POWER], *absent]) is Verdict.INCONCLUSIVE
    assert verdict([*young, *models(P)]) is Verdict.REPLICATED


def test_three_seeds_are_one_model_with_the_interval_over_seeds(tmp_path):
    """Each passes within itself, and together they do not: seeds spread more than sentences."""
    values = [0.82, 0.9, 0.98]
    rows = table(*((f"m s{n}", n, value, value - 0.01, value + 0.01)
                   for n, value in enumerate(values)))  # fmt: skip
    (model,) = judged(LEDGER, SHORT, rows, tmp_path)
    known = over_seeds(values)
    assert (model.model, model.seeds, model.outcome) == ("m", 3, Outcome.UNDECIDED)
    assert model.row["low"] == pytest.approx(known.low) and known.low < 0.8
    assert model.row["value"] == pytest.approx(0.9)


def test_the_baseline_of_each_seed_is_its_own(tmp_path):
    claim = replace(SHORT, rule=Rule(Comparison.EXCEEDS_BASELINE_BY, threshold=0.1))
    rows = table(*((f"m s{n}", n, 0.5 + n / 5, 0.0, 1.0) for n in range(3)))
    margins = [0.2, 0.21, 0.22]
    rows = [each | {"baseline": each["value"] - margin}
            for each, margin in zip(rows, margins, strict=True)]  # fmt: skip
    (model,) = judged(LEDGER, claim, rows, tmp_path)
    low = over_seeds(margins).low
    assert model.outcome is P and model.row["low"] - model.row["baseline"] == pytest.approx(low)


def test_two_seeds_are_one_model_only_without_intervals_of_their_own(tmp_path):
    within = table(*((f"m s{n}", n, *PASSING[2:]) for n in range(2)))
    assert [each.seeds for each in judged(LEDGER, SHORT, within, tmp_path)] == [1, 1]
    alone = [each | {"low": NAN, "high": NAN} for each in within]
    (model,) = judged(LEDGER, SHORT, alone, tmp_path)
    assert model.seeds == 2 and np.isfinite(model.row["low"])
    widths = table(*((f"m w{width} s0", 0, *PASSING[2:]) for width in (64, 128, 256)))
    assert len(judged(LEDGER, SHORT, widths, tmp_path)) == 3


def test_a_lone_number_decides_nothing_where_seeds_are_seen_to_spread(tmp_path):
    alone = table(("other s0", 0, 0.7, NAN, NAN))
    assert judged(LEDGER, SHORT, alone, tmp_path)[0].outcome is Outcome.FAIL
    seeds = table(*((f"m s{n}", n, 0.9 + n / 50, NAN, NAN) for n in range(3)))
    both = judged(LEDGER, SHORT, alone + seeds, tmp_path)
    assert [each.outcome for each in both] == [Outcome.UNDECIDED, Outcome.PASS]


def test_settings_are_tested_together(tmp_path):
    """One of ten at p = 0.04 is luck; at p far below it is none."""
    claim = replace(SHORT, rule=Rule(Comparison.MORE_THAN, threshold=0.0), rows=Rows.SETTINGS)
    flat = [(f"setting {n}", "", 0.0, -1.0, 1.0) for n in range(9)]
    rows = table(*flat, ("lucky", "", 1.05, 0.05, 2.05))
    assert verdict(judged(LEDGER, claim, rows, tmp_path)) is Verdict.INCONCLUSIVE
    single = replace(claim, rows=Rows.MODELS)
    assert judged(LEDGER, single, rows, tmp_path)[-1].outcome is Outcome.PASS
    sure = table(*flat, ("sure", "", 2.0, 1.0, 3.0))
    assert judged(LEDGER, claim, sure, tmp_path)[-1].outcome is Outcome.PASS
    # the same interval over three seeds is less sure
    assert verdict(judged(LEDGER, replace(claim, seeds=3), sure, tmp_path)) is Verdict.INCONCLUSIVE
