"""The ledger is read as written, and each kind of fault in it is one line that names the claim."""

import copy
import re
from datetime import date

import pytest
import yaml

from headbook.claims.ledger import Gate, Kind, Rows, load, studies
from headbook.claims.rule import ORDERINGS, Comparison, Outcome, judge
from headbook.types import UserError

ENTRY = {
    "id": "a-claim",
    "source": {"work": "some2020", "where": "Figure 1"},
    "claim": "Something holds.",
    "paper": [{"of": "WMT", "value": 0.82, "baseline": 0.72}],
    "unit": "share",
    "study": "13_syntactic_heads",
    "domain": "short",
    "measure": "A share.",
    "rule": {"test": "exceeds_baseline_by", "threshold": 0.1},
    "because": "The work says so.",
}
CHANGE = {"until": "2026-11-23", "was": "It read the value.", "because": "An ordering."}


def written(tmp_path, *entries):
    path = tmp_path / "claims.yml"
    ledger = {
        "domains": {"short": ["tatoeba"]},
        "works": {"some2020": "Some 2020"},
        "claims": list(entries),
    }
    path.write_text(yaml.safe_dump(ledger), encoding="utf-8")
    return path


def changed(**fields):
    return {**copy.deepcopy(ENTRY), **fields}


def test_a_claim_is_read_as_written(tmp_path):
    ledger = load(written(tmp_path, ENTRY))
    claim = ledger.claim("a-claim")
    assert (claim.work, claim.where, claim.study) == ("some2020", "Figure 1", "13_syntactic_heads")
    assert claim.paper[0].values == (0.82,) and claim.paper[0].baseline == 0.72
    assert claim.rule.test is Comparison.EXCEEDS_BASELINE_BY
    assert claim.rule.threshold == 0.1
    assert ledger.applies(claim, "tatoeba-de") and not ledger.applies(claim, "msdocs-ru")


def test_part_files_bring_claims_and_works(tmp_path):
    main = written(tmp_path, ENTRY)
    (tmp_path / "claims").mkdir()
    other = changed(id="b-claim", source={"work": "other2021", "where": "Table 2"})
    part = tmp_path / "claims" / "4_why.yml"
    part.write_text(yaml.safe_dump({"works": {"other2021": "Other 2021"}, "claims": [other]}))
    assert [claim.id for claim in load(main).claims] == ["a-claim", "b-claim"]
    part.write_text(yaml.safe_dump({"claims": [changed(id="b-claim", unit="mile")]}))
    with pytest.raises(UserError, match=r"b-claim: unit 'mile' is not known"):
        load(main)


def test_optional_fields_are_read_and_have_defaults(tmp_path):
    plain = load(written(tmp_path, ENTRY)).claim("a-claim")
    assert (plain.kind, plain.rows) == (Kind.FINDING, Rows.MODELS)
    assert plain.gates == {Gate.CONVERGED} and plain.unconverged is None
    assert (plain.effect, plain.seeds, plain.history) == (None, None, ())
    assert (plain.value, plain.baseline) == (None, None)
    full = changed(kind="identity", gates=["present", "power"], effect=0.3, rows="settings",
                   seeds=3, history=[CHANGE], value="13/best[ud]", baseline="offset")  # fmt: skip
    claim = load(written(tmp_path, full)).claim("a-claim")
    assert claim.gates == {Gate.PRESENT, Gate.POWER} and claim.effect == 0.3
    assert (claim.kind, claim.rows, claim.seeds) == (Kind.IDENTITY, Rows.SETTINGS, 3)
    assert (claim.value, claim.baseline) == ("13/best[ud]", "offset")
    (change,) = claim.history
    assert change.until == date(2026, 11, 23) and change.was == "It read the value."


def test_every_finding_in_force_asks_for_converged_models_or_says_why_not(tmp_path):
    said = changed(id="b-claim", unconverged="It is about models before training.")
    former = changed(id="c-claim", superseded="a-claim")
    text = changed(id="d-claim", kind="text", gates=["present"])
    ledger = load(written(tmp_path, changed(gates=["present"]), said, former, text))
    gates = {claim.id: claim.gates for claim in ledger.claims}
    assert gates["a-claim"] == {Gate.CONVERGED, Gate.PRESENT}
    assert gates["b-claim"] == gates["c-claim"] == set() and gates["d-claim"] == {Gate.PRESENT}
    assert ledger.claim("b-claim").unconverged == "It is about models before training."
    with pytest.raises(UserError, match="a-claim"):
        load(written(tmp_path, changed(gates=["converged"], unconverged="It is not.")))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (changed(colour="red"), "unknown key colour"),
        ({key: ENTRY[key] for key in ENTRY if key != "because"}, "missing because"),
        (changed(study="13_syntax"), "study '13_syntax' is not known"),
        (changed(unit="percent"), "unit 'percent' is not known"),
        (changed(domain="poems"), "domain 'poems' is not known"),
        (changed(source={"work": "other2020", "where": "x"}), "work 'other2020' is not known"),
        (changed(source={"work": "some2020"}), "missing where"),
        (changed(measure=" "), "measure: must be text"),
        (changed(claim=3), "claim: must be text"),
        (changed(paper=0.5), "paper must be a list"),
        (changed(source={"work": "some2020", "where": 4}), "where: must be text"),
        (changed(paper=[{"of": 1, "value": 0.5}]), "paper: must be text"),
        (changed(paper=[{"of": "WMT", "value": "high"}]), "'high' is not a number"),
        (changed(paper=[{"of": "WMT", "value": True}]), "True is not a number"),
        (changed(rule={"test": "about", "threshold": 1}), "'about' is not known"),
        (changed(rule={"test": "at_least"}), "missing threshold"),
        (changed(rule={"test": "at_least", "threshold": 1, "range": [0, 1]}), "unknown key range"),
        (changed(rule={"test": "at_least", "threshold": 1, "reads": "low"}), "unknown key reads"),
        (changed(rule={"test": "within", "range": [2, 1]}), "holds nothing"),
        (changed(rule={"test": "within", "range": [2]}), "[low, high]"),
        (changed(rule="at_least 3"), "expected a mapping"),
        (changed(kind="theorem"), "kind: 'theorem' is not known"),
        (changed(gates=["trained"]), "gates: 'trained' is not known"),
        (changed(gates="present"), "gates must be a list"),
        (changed(gates=["power"]), "the gate power and the field effect need each other"),
        (changed(effect=0.2), "the gate power and the field effect need each other"),
        (changed(role="rare"), "role is one of"),
        (changed(gates=["present"], role="verbs"), "found 'verbs'"),
        (changed(rows="heads"), "rows: 'heads' is not known"),
        (changed(seeds=1), "1 is no number of seeds"),
        (changed(history=[{"until": "2026-11-23", "was": "x"}]), "missing because"),
        (changed(history=[CHANGE | {"until": "soon"}]), "'soon' is no date"),
        (changed(history=[CHANGE, CHANGE | {"until": "2026-01-01"}]), "oldest change first"),
        (changed(value="13/best[text"), "a-claim, value"),
        (changed(value="best[text=ud-ewt]"), "a-claim, value"),
        (changed(value="mean(13/best[text=ud-ewt].value)"), "no aggregate"),
        (changed(value="13/best[text=ud-ewt].value:%"), "no format"),
        (changed(value=0.5), "value: must be text"),
        (changed(baseline="offset"), "add value"),
        (changed(superseded="no-such-claim"), "superseded names 'no-such-claim'"),
        (changed(superseded="a-claim"), "superseded names 'a-claim'"),
        (changed(superseded=["a-claim"]), "superseded: must be text"),
    ],
)
def test_a_fault_is_one_line_naming_the_claim(tmp_path, entry, said):
    with pytest.raises(UserError) as fault:
        load(written(tmp_path, entry))
    line = str(fault.value)
    assert said in line and "claims.yml, a-claim" in line and "\n" not in line


def test_an_id_used_twice_is_refused(tmp_path):
    with pytest.raises(UserError, match="a-claim is used twice"):
        load(written(tmp_path, ENTRY, ENTRY))


def test_a_ledger_that_is_missing_or_no_yaml_is_one_line(tmp_path):
    with pytest.raises(UserError, match="no such ledger"):
        load(tmp_path / "none.yml")
    broken = tmp_path / "claims.yml"
    broken.write_text("claims: [", encoding="utf-8")
    with pytest.raises(UserError, match="not readable YAML") as fault:
        load(broken)
    assert "\n" not in str(fault.value)


def test_an_unknown_id_is_refused(tmp_path):
    with pytest.raises(UserError, match="no-such-claim"):
        load(written(tmp_path, ENTRY)).claim("no-such-claim")


def test_the_published_ledger_covers_what_it_must():
    ledger = load()
    places = " ".join(claim.where for claim in ledger.claims if claim.work == "voita2019")
    for place in ("Figure 1b", "Figure 1c", "and 2", "Figure 3", "Figure 4", "2, 5", "Table 1"):
        assert place in places
    for place in ("Figure 1a", "Figure 6", "Figure 7", "Figure 8", "Table 2", "Figure 9", "10"):
        assert place in places
    michel = " ".join(claim.where for claim in ledger.claims if claim.work == "michel2019")
    for place in (
        *(f"Figure {number}" for number in range(1, 6)),
        "Table 1",
        "Table 4",
        "Tables 2",
    ):
        assert place in michel
    table_1 = [c for c in ledger.claims if c.id.endswith(("-to-head", "-to-dependent"))]
    assert len(table_1) == 8 and all(len(claim.paper) == 2 for claim in table_1)
    assert {claim.study for claim in ledger.claims} <= set(studies())
    assert {claim.work for claim in ledger.claims} == set(ledger.works)


def test_the_rules_of_table_1_agree_with_the_numbers_they_come_from():
    """The work's own numbers must pass a rule made from them, and each other's must not all."""
    table_1 = [c for c in load().claims if c.id.endswith(("-to-head", "-to-dependent"))]
    for claim in table_1:
        for value in claim.paper:
            measured = {
                "value": value.values[0],
                "baseline": value.baseline,
                "low": value.values[0],
                "high": value.values[0],
            }
            assert judge(claim.rule, measured) is Outcome.PASS, (claim.id, value.of)
    untrained = {"value": 0.30, "low": 0.30, "high": 0.30, "baseline": 0.45}
    for claim in table_1:
        assert judge(claim.rule, untrained) is Outcome.FAIL, claim.id


PART_2 = [claim for claim in load().claims if "16" <= claim.study[:2] < "30"]


def exactly(value, baseline=float("nan")):
    return {"value": value, "low": value, "high": value, "baseline": baseline}


def test_every_study_of_part_2_has_claims_of_which_some_can_fail():
    assert {claim.study for claim in PART_2} == {name for name in studies() if "16" <= name < "30"}
    assert 30 <= len(PART_2) <= 70
    for claim in PART_2:
        ends = {judge(claim.rule, exactly(number, baseline=0.0)) for number in (-1e6, 1e6)}
        assert Outcome.FAIL in ends, claim.id


@pytest.mark.parametrize("claim", PART_2, ids=lambda claim: claim.id)
def test_the_numbers_of_the_work_pass_the_rule_made_from_them(claim):
    """A number printed as `more than` is the bound itself, which a strict rule refuses."""
    for printed in claim.paper:
        if not printed.of.endswith("more than"):
            found = {judge(claim.rule, exactly(value)) for value in printed.values}
            assert found == {Outcome.PASS}, printed.of


def test_an_ordering_is_not_passed_by_no_difference_nor_by_a_wide_interval():
    """Zero, or one half where a share of pairs is compared, is what no effect gives."""
    orderings = [c for c in PART_2 if c.rule.test in ORDERINGS]
    assert len(orderings) > len(PART_2) / 3
    for claim in orderings:
        wide = {"value": 0.0, "low": -1e6, "high": 1e6, "baseline": float("nan")}
        assert claim.rule.threshold in (0.0, 0.5), claim.id
        assert judge(claim.rule, exactly(claim.rule.threshold)) is Outcome.FAIL
        assert judge(claim.rule, wide) is Outcome.UNDECIDED
        assert re.search("ootstrap|BLEU|over seeds|permutations", claim.measure), claim.id


def test_every_rule_that_read_bare_values_for_an_ordering_has_its_history():
    """Thirty-one claims and one more were judged by the value alone until intervals were read."""
    alone = "value alone decided, whether zero lay in its interval"
    told = [each for each in load().claims if any(alone in change.was for change in each.history)]
    assert len(told) == 32


def test_identities_and_texts_are_marked_as_such():
    kinds = {kind: {c.id for c in load().claims if c.kind is kind} for kind in Kind}
    assert {"why-tied-scores-symmetric", "fast-weights-identity"} <= kinds[Kind.IDENTITY]
    texts = {c.id for c in load().claims if c.value and c.value.startswith("13/corpora[")}
    assert kinds[Kind.TEXT] == texts


def test_claims_on_untrained_decoders_without_padding_are_not_the_article_s():
    assert load().claim("xray-first-layer-outlier").work == "headbook"


def test_a_small_loss_is_the_same_everywhere():
    losses = [c for c in PART_2 if c.unit == "bleu" and c.rule.test is Comparison.AT_LEAST]
    assert len(losses) == 3 and {claim.rule.threshold for claim in losses} == {-0.25}
