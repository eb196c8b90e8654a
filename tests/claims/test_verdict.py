"""Each outcome and each verdict is reached by a planted table."""

from dataclasses import replace

import numpy as np
import pytest

from headbook.claims.ledger import Gate, Kind, Ledger, Rows, load
from headbook.claims.rule import Comparison, Outcome, Rule
from headbook.claims.verdict import Judged, Verdict, judged, result, verdict
from headbook.statistics import over_seeds

NAN = float("nan")
KNOWN = load().claim("voita-t1-dobj-head-to-dependent")
OPEN = {"gates": frozenset(), "domain": "short", "effect": None, "role": None}
SHORT = replace(KNOWN, rule=Rule(Comparison.AT_LEAST, threshold=0.8), **OPEN)
LEDGER = Ledger((SHORT,), {}, {"short": ("tatoeba",)})
NUMBERS = {
    Outcome.PASS: (0.85, 0.81, 0.9),
    Outcome.FAIL: (0.75, 0.7, 0.79),
    Outcome.UNDECIDED: (0.85, 0.7, 0.9),
    Outcome.NO_NUMBER: (NAN, NAN, NAN),
}


def table(*rows, corpus="tatoeba-de", baseline=NAN, closed=None):
    """Rows of (model, seed, value, low, high)."""
    labels = {"corpus": corpus, "target": "de", "baseline": baseline, "closed": closed}
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


P, F, U, C, N, X = (
    Outcome.PASS, Outcome.FAIL, Outcome.UNDECIDED, Outcome.CLOSED, Outcome.NO_NUMBER,
    Outcome.OUTSIDE,
)  # fmt: skip


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([P], Verdict.REPLICATED),
        ([P, P, U], Verdict.REPLICATED),
        ([P, U], Verdict.MIXED),
        ([P, C, N], Verdict.REPLICATED),
        ([F, F, U], Verdict.CONTRADICTED),
        ([F, U], Verdict.MIXED),
        ([P, P, P, F], Verdict.MIXED),
        ([U, C], Verdict.INCONCLUSIVE),
        ([N, C], Verdict.INCONCLUSIVE),
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
    told = {gate: verdict(each) for gate, each in shut.items()}
    assert told.pop(Gate.PRESENT) is Verdict.ABSENT
    assert told.pop(Gate.CONVERGED) is Verdict.NOT_JUDGED
    assert set(told.values()) == {Verdict.INCONCLUSIVE}
    young, absent = shut[Gate.CONVERGED], shut[Gate.PRESENT]
    assert verdict([*young, *absent]) is Verdict.ABSENT
    assert verdict([*young, *shut[Gate.POWER], *absent]) is Verdict.INCONCLUSIVE
    both = [replace(each, closed={Gate.CONVERGED: "", Gate.PRESENT: ""}) for each in young]
    assert verdict(both) is Verdict.NOT_JUDGED
    assert verdict([*both, *models(P)]) is Verdict.REPLICATED


@pytest.mark.parametrize("outcome", list(NUMBERS))
def test_a_row_has_the_outcome_of_its_interval(tmp_path, outcome):
    (model,) = judged(LEDGER, SHORT, table(("m", 0, *NUMBERS[outcome])), tmp_path)
    assert model.outcome is outcome and model.seeds == 1
    other = table(("m", 0, *NUMBERS[outcome]), corpus="msdocs-de")
    assert judged(LEDGER, SHORT, other, tmp_path)[0].outcome is Outcome.OUTSIDE


def test_an_interval_that_holds_the_threshold_never_decides(tmp_path):
    """Of any rule, whatever the value: inconclusive."""
    for comparison in Comparison:
        ranged = comparison in (Comparison.WITHIN, Comparison.MARGIN_WITHIN)
        bound = {"range": (0.8, 2.0)} if ranged else {"threshold": 0.8}
        claim = replace(SHORT, rule=Rule(comparison, **bound))
        for value in (0.71, 0.8, 0.89):
            row = table(("m", 0, value, 0.7, 0.9), baseline=0.0)
            assert result(LEDGER, claim, row, tmp_path).verdict is Verdict.INCONCLUSIVE


# ------------------------------------------------------------------ the unit is the model


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
    for row, margin in zip(rows, (0.2, 0.21, 0.22), strict=True):
        row["baseline"] = row["value"] - margin
    (model,) = judged(LEDGER, claim, rows, tmp_path)
    assert model.outcome is Outcome.PASS
    assert model.row["low"] - model.row["baseline"] == pytest.approx(
        over_seeds([0.2, 0.21, 0.22]).low
    )


def test_two_seeds_are_one_model_only_without_intervals_of_their_own(tmp_path):
    within = table(("m s0", 0, *NUMBERS[P]), ("m s1", 1, *NUMBERS[P]))
    assert [each.seeds for each in judged(LEDGER, SHORT, within, tmp_path)] == [1, 1]
    (model,) = judged(
        LEDGER, SHORT, [each | {"low": NAN, "high": NAN} for each in within], tmp_path
    )
    assert model.seeds == 2 and np.isfinite(model.row["low"])
    widths = table(*((f"tatoeba-de w{width} s0", 0, *NUMBERS[P]) for width in (64, 128, 256)))
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


# ------------------------------------------------------------------ what is not counted


def test_identities_texts_and_rules_without_diagnosis_are_not_counted(tmp_path):
    rows = table(("m", 0, *NUMBERS[P]), closed="")
    counted = result(LEDGER, SHORT, rows, tmp_path)
    assert counted.uncounted == "" and counted.verdict is Verdict.REPLICATED
    for kind, said in ((Kind.IDENTITY, "identity"), (Kind.TEXT, "property of a text")):
        assert result(LEDGER, replace(SHORT, kind=kind), rows, tmp_path).uncounted == said
    blunt = result(
        LEDGER, SHORT, table(("m", 0, *NUMBERS[P]), closed="diagnostic: untrained"), tmp_path
    )
    assert blunt.uncounted == "not diagnostic" and blunt.verdict is Verdict.INCONCLUSIVE
