"""Each gate closes what it should, by what a study says or by published tables."""

from dataclasses import replace

import pandas as pd
import pytest

from headbook import tables
from headbook.claims.gates import closed, parsed, weak
from headbook.claims.ledger import Claim, Gate, load
from headbook.claims.published import Evidence
from headbook.claims.rule import Comparison, Rule
from headbook.types import UserError

NAN = float("nan")
MODEL = "tatoeba-de w128 s0"
CLAIM = Claim(
    id="a-claim", work="some2020", where="x", claim="x", paper=(), unit="share",
    study="13_syntactic_heads", domain="any", measure="x",
    rule=Rule(Comparison.AT_LEAST, threshold=0.8), because="x", profile="laptop",
)  # fmt: skip


def row(value=0.9, model=MODEL, **more):
    return {"model": model, "value": value, "low": NAN, "high": NAN, "baseline": NAN, **more}


def gated(*gates, **more):
    return replace(CLAIM, gates=frozenset(gates), **more)


def test_a_claim_without_gates_has_none_closed(tmp_path):
    assert closed(CLAIM, row(NAN), Evidence(tmp_path)) == {}


@pytest.mark.parametrize(
    ("named", "gates"),
    [
        ("none", {}),
        ("converged", {Gate.CONVERGED: ""}),
        ("present: no such head; power", {Gate.PRESENT: "no such head", Gate.POWER: ""}),
    ],
)
def test_a_study_is_taken_at_its_word(tmp_path, named, gates):
    claim = gated(Gate.CONVERGED)
    assert closed(claim, row(closed=named), Evidence(tmp_path)) == gates


@pytest.mark.parametrize("cell", ["", NAN, None])
def test_an_empty_cell_leaves_it_to_the_published_tables(tmp_path, cell):
    assert closed(gated(Gate.CONVERGED), row(closed=cell), Evidence(tmp_path))


def test_an_unknown_gate_in_a_table_is_refused():
    with pytest.raises(UserError, match="'trained' is no gate"):
        parsed("trained: well")


# ------------------------------------------------------------------ converged


def checkpoints(*bleu, model=MODEL):
    """Of every 100 updates."""
    updates = [100 * (n + 1) for n in range(len(bleu))]
    return pd.DataFrame({"model": model, "update": updates, "bleu": bleu})


def trained(root, **courses):
    """The evidence where page 26 has published these."""
    files = {name: tables.csv(course) for name, course in courses.items()}
    tables.replace("26", files, {"tables": {name: {"text": ["model"]} for name in files}}, root)
    return Evidence(root / "laptop")


@pytest.mark.parametrize(
    ("bleu", "shut"),
    [
        # the last sixth of 600 updates begins at 500
        ((1, 10, 20, 25, 30.0, 30.2), False),
        ((1, 10, 20, 25, 30.0, 30.3), True),
        ((1, 10, 20, 25, 30.3, 30.0), True),
        ((30.0,), True),
    ],
)
def test_a_model_has_converged_when_a_fifth_more_updates_hardly_moved_it(tmp_path, bleu, shut):
    known = trained(tmp_path, young=checkpoints(*bleu))
    assert bool(closed(gated(Gate.CONVERGED), row(), known)) is shut


@pytest.mark.parametrize(("last", "shut"), [(30.2, False), (30.3, True)])
def test_a_long_training_is_known_by_its_snapshots(tmp_path, last, shut):
    """Some have no BLEU; a small model is in a table beside."""
    long = checkpoints(NAN, 10, 20, 25, 30.0, last)
    known = trained(tmp_path, quality=long, young=checkpoints(1.0, 2.0, model="another"))
    assert bool(closed(gated(Gate.CONVERGED), row(), known)) is shut


def test_a_model_that_no_table_knows_is_not_shown_to_have_converged(tmp_path):
    known = trained(tmp_path, young=checkpoints(*[30.0] * 6))
    found = closed(gated(Gate.CONVERGED), row(model="another"), known)
    assert found == {Gate.CONVERGED: "not shown to have converged"}


@pytest.mark.parametrize(("nats", "shut"), [(5.0, False), (6.5, True), (6.7, True)])
def test_a_language_model_has_to_have_learnt_its_text(tmp_path, nats, shut):
    """Page 31 has the losses, of some models alone."""
    losses = {"model": [MODEL, "other"], "test_nats": [nats, None], "frequency_nats": [6.6, None]}
    text = tables.csv(pd.DataFrame(losses))
    tables.replace(
        "31", {"trainings": text}, {"tables": {"trainings": {"text": ["model"]}}}, tmp_path
    )
    found = closed(gated(Gate.CONVERGED), row(), Evidence(tmp_path / "laptop"))
    assert bool(found) is shut and all("not learnt" in why for why in found.values())


# ------------------------------------------------------------------ present


@pytest.mark.parametrize(("count", "shut"), [(2, False), (0, True)])
def test_a_head_with_the_role_is_one_that_page_11_counted(tmp_path, count, shut):
    """On one text of several; the pages' tables are those of all profiles."""
    counts = {"model": MODEL, "text": ["a", "a", "b"], "role": ["syntactic", "rare", "syntactic"],
              "count": [0, 0, count]}  # fmt: skip
    text = tables.csv(pd.DataFrame(counts))
    record = {"tables": {"role_counts": {"text": ["model", "text", "role"]}}}
    tables.replace("11", {"role_counts": text}, record, tmp_path)
    known = Evidence(tmp_path / "laptop")
    syntactic, rare = (gated(Gate.PRESENT, role=role) for role in ("syntactic", "rare"))
    assert bool(closed(syntactic, row(), known)) is shut
    assert closed(rare, row(), known) == {Gate.PRESENT: "no rare-word head"}
    assert "not known" in closed(syntactic, row(model="another"), known)[Gate.PRESENT]
    assert bool(closed(syntactic, row(model=f"{MODEL} minus {MODEL}"), known)) is shut
    assert closed(syntactic, row(model=f"{MODEL} minus another"), known)


def test_a_row_without_a_number_has_nothing_of_the_kind(tmp_path):
    assert Gate.PRESENT in closed(gated(Gate.PRESENT), row(NAN), Evidence(tmp_path))
    assert closed(gated(Gate.PRESENT), row(), Evidence(tmp_path)) == {}


@pytest.mark.parametrize(("early", "shut"), [(1.9, True), (3.6, False)])
def test_a_snapshot_that_has_learnt_nothing_is_not_judged(tmp_path, early, shut):
    found = pd.DataFrame({"model": MODEL, "update": [128, 1500], "bleu": [early, 32.0]})
    record = {"tables": {"checkpoints": {"text": ["model"]}}}
    tables.replace("23", {"checkpoints": tables.csv(found)}, record, tmp_path)
    claim, known = load().claim("michel-f5-early-heads-equal"), Evidence(tmp_path / "laptop")
    assert (Gate.PRESENT in closed(claim, row(-0.4), known)) is shut


# ------------------------------------------------------------------ power


@pytest.mark.parametrize(("half", "shut"), [(0.25, False), (0.26, True), (NAN, True)])
def test_an_interval_may_be_as_wide_as_the_effect(half, shut):
    claim = gated(Gate.POWER, effect=-0.5)
    assert weak(claim, {"low": 1 - half, "high": 1 + half}) is shut
    assert not weak(CLAIM, {"low": 0.0, "high": 9.0})
