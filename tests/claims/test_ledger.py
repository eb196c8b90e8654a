"""The ledger is read as written, and each kind of fault in it is one line that names the claim."""

import copy

import pytest
import yaml

from headbook.claims.ledger import STUDIES, load
from headbook.claims.rule import Column, Comparison, Outcome, judge
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
    "rule": {"test": "exceeds_baseline_by", "threshold": 0.1, "reads": "low"},
    "because": "The work says so.",
    "profile": "laptop",
}


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
    assert (claim.rule.reads, claim.rule.threshold) == (Column.LOW, 0.1)
    assert ledger.applies(claim, "tatoeba-de") and not ledger.applies(claim, "msdocs-ru")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (changed(colour="red"), "unknown key colour"),
        ({key: ENTRY[key] for key in ENTRY if key != "because"}, "missing because"),
        (changed(study="13_syntax"), "study '13_syntax' is not known"),
        (changed(profile="big"), "profile 'big' is not known"),
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
        (changed(rule={"test": "at_least", "threshold": 1, "on": "low"}), "unknown key on"),
        (changed(rule={"test": "at_least", "threshold": 1, "reads": "mean"}), "'mean' is not"),
        (changed(rule={"test": "within", "range": [2, 1]}), "holds nothing"),
        (changed(rule={"test": "within", "range": [2]}), "[low, high]"),
        (changed(rule={"test": "differs_from_zero", "threshold": 0}), "unknown key threshold"),
        (changed(rule="at_least 3"), "expected a mapping"),
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
    table_1 = [c for c in ledger.claims if c.id.endswith(("-to-head", "-to-dependent"))]
    assert len(table_1) == 8 and all(len(claim.paper) == 2 for claim in table_1)
    assert {claim.study for claim in ledger.claims} <= set(STUDIES)
    assert any(claim.work == "adaloglou2021" for claim in ledger.claims)


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
    assert all(judge(claim.rule, untrained) is Outcome.FAIL for claim in table_1)
