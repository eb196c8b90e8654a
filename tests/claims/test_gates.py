"""Each gate closes what it should, by what a study says or by published tables."""

from dataclasses import replace

import pandas as pd
import pytest
from published_table import put
from refusing import refused

from headbook import tables
from headbook.claims.gates import closed, parsed, weak
from headbook.claims.ledger import Gate, load

NAN = float("nan")
MODEL = "tatoeba-de w128 s0"
UNKNOWN = {Gate.CONVERGED: "not shown to have converged"}


def row(value=0.9, model=MODEL, **more):
    return {"model": model, "value": value, "low": NAN, "high": NAN, "baseline": NAN, **more}


def gated(*gates, **more):
    claim = load().claim("voita-t1-dobj-head-to-dependent")
    return replace(claim, gates=frozenset(gates), **more)


ASKED = gated(Gate.CONVERGED)


def publish(root, name, **columns):
    put(root, name, tables.csv(pd.DataFrame(columns)))


@pytest.mark.parametrize(
    ("named", "gates"),
    [
        ("none", {}),
        ("converged", {Gate.CONVERGED: ""}),
        ("present: no such head; power", {Gate.PRESENT: "no such head", Gate.POWER: ""}),
    ],
)
def test_named_gates_are_closed_and_converged_is_asked_beside_them(tmp_path, named, gates):
    """Unless the page tests it itself, or the model is a released one."""
    assert closed(ASKED, row(closed=named), tmp_path) == UNKNOWN | gates
    assert closed(ASKED, row(closed=named, corpus="released"), tmp_path) == gates
    settled = replace(ASKED, settled="Nine of ten are right.")
    assert closed(settled, row(closed=named), tmp_path) == gates
    for empty in ("", NAN, None):
        assert closed(settled, row(closed=empty), tmp_path) == UNKNOWN
    with refused("'trained' is not a valid Gate"):
        parsed("trained: well")


@pytest.mark.parametrize(("last", "shut"), [(30.2, False), (30.3, True), (29.7, True)])
@pytest.mark.parametrize("table", ["young", "quality"])
def test_a_model_has_converged_when_a_fifth_more_updates_hardly_moved_it(
    tmp_path, table, last, shut
):
    """Some snapshots have no BLEU; another model has moved."""
    bleu = [NAN, 10, 20, 25, 30.0, last]
    publish(tmp_path, f"26/{table}", model=[MODEL] * 6 + ["other"] * 2,
            update=[*range(100, 700, 100), 100, 600], bleu=[*bleu, 1, 9])  # fmt: skip
    assert bool(closed(ASKED, row(), tmp_path)) is shut
    assert closed(ASKED, row(model="other"), tmp_path)
    assert closed(ASKED, row(corpus="released"), tmp_path) == {}


@pytest.mark.parametrize(("nats", "shut"), [(5.0, False), (6.5, True), (6.7, True)])
def test_a_language_model_has_to_have_learnt_its_text(tmp_path, nats, shut):
    publish(tmp_path, "31/trainings", model=[MODEL, "other"], test_nats=[nats, None],
            frequency_nats=[6.6, None])  # fmt: skip
    assert bool(closed(ASKED, row(), tmp_path)) is shut


@pytest.mark.parametrize(("count", "shut"), [(2, False), (0, True)])
def test_a_head_with_the_role_is_one_that_page_11_counted(tmp_path, count, shut):
    """On one text of several; of another text it has one. Of a difference both have to have one."""
    publish(tmp_path, "11/role_counts", model=[MODEL] * 3, text=["a", "a", "b"],
            role=["syntactic", "rare", "syntactic"], count=[0, 0, count])  # fmt: skip
    syntactic, rare = (gated(Gate.PRESENT, role=role) for role in ("syntactic", "rare"))
    for model, missing in ((MODEL, shut), (f"{MODEL} minus {MODEL}", shut),
                           ("another", True), (f"{MODEL} minus another", True)):  # fmt: skip
        assert bool(closed(syntactic, row(model=model), tmp_path)) is missing
    assert closed(rare, row(), tmp_path) == {Gate.PRESENT: "no rare-word head"}
    assert Gate.PRESENT in closed(gated(Gate.PRESENT), row(NAN, closed="none"), tmp_path)
    assert closed(gated(Gate.PRESENT), row(), tmp_path) == closed(gated(), row(NAN), tmp_path) == {}


@pytest.mark.parametrize(("early", "shut"), [(1.9, True), (3.6, False)])
def test_a_snapshot_that_has_learnt_nothing_is_not_judged(tmp_path, early, shut):
    publish(tmp_path, "23/checkpoints", model=MODEL, update=[128, 1500], bleu=[early, 32.0])
    claim = load().claim("michel-f5-early-heads-equal")
    assert (Gate.PRESENT in closed(claim, row(-0.4), tmp_path)) is shut


@pytest.mark.parametrize(("half", "shut"), [(0.25, False), (0.26, True), (NAN, True)])
def test_an_interval_may_be_as_wide_as_the_effect(half, shut):
    claim = gated(Gate.POWER, effect=-0.5)
    assert weak(claim, {"low": 1 - half, "high": 1 + half}) is shut
    assert not weak(gated(), {"low": 0.0, "high": 9.0})
