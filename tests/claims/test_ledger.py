"""The ledger is read as written, and each kind of fault in it is one line that names the claim."""

import re
from datetime import date

import pytest
import yaml
from refusing import refused

from headbook import paths
from headbook.claims.ledger import Gate, Kind, Rows, load, studies
from headbook.claims.rule import Comparison

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
    works, domains = {"some2020": "Some 2020"}, {"short": ["tatoeba"]}
    ledger = {"domains": domains, "works": works, "claims": list(entries)}
    path.write_text(yaml.safe_dump(ledger), encoding="utf-8")
    return path


def changed(**fields):
    return ENTRY | fields


def test_a_claim_is_read_as_written(tmp_path):
    entry = changed(kind="identity", gates=["present", "power"], effect=0.3, rows="settings",
                    seeds=3, history=[CHANGE], value="13/best[ud]", baseline="offset")  # fmt: skip
    ledger = load(written(tmp_path, entry))
    claim = ledger.claim("a-claim")
    assert (claim.work, claim.where, claim.study) == ("some2020", "Figure 1", "13_syntactic_heads")
    assert claim.paper[0].values == (0.82,) and claim.paper[0].baseline == 0.72
    assert (claim.rule.test, claim.rule.threshold) == (Comparison.EXCEEDS_BASELINE_BY, 0.1)
    assert ledger.applies(claim, "tatoeba-de") and not ledger.applies(claim, "msdocs-ru")
    assert claim.gates == {Gate.PRESENT, Gate.POWER} and claim.effect == 0.3
    assert (claim.kind, claim.rows, claim.seeds) == (Kind.IDENTITY, Rows.SETTINGS, 3)
    assert claim.history[0].until == date(2026, 11, 23)


def test_part_files_bring_claims_and_works(tmp_path):
    main = written(tmp_path, ENTRY)
    (tmp_path / "claims").mkdir()
    other = changed(id="b-claim", source={"work": "other2021", "where": "Table 2"})
    part = tmp_path / "claims" / "4_why.yml"
    part.write_text(yaml.safe_dump({"works": {"other2021": "Other 2021"}, "claims": [other]}))
    assert [claim.id for claim in load(main).claims] == ["a-claim", "b-claim"]
    part.write_text(yaml.safe_dump({"claims": [changed(id="b-claim", unit="mile")]}))
    with refused(r"4_why\.yml, b-claim: unit: .*'mile'"):
        load(main)


def test_every_finding_in_force_asks_for_converged_models_or_says_why_not(tmp_path):
    said = changed(id="b-claim", unconverged="It is about models before training.")
    former = changed(id="c-claim", superseded="a-claim")
    text = changed(id="d-claim", kind="text", gates=["present"])
    ledger = load(written(tmp_path, changed(gates=["present"]), said, former, text))
    gates = {claim.id: claim.gates for claim in ledger.claims}
    assert gates["a-claim"] == {Gate.CONVERGED, Gate.PRESENT}
    assert gates["b-claim"] == gates["c-claim"] == set() and gates["d-claim"] == {Gate.PRESENT}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (changed(colour="red"), "colour"),
        ({"id": "a-claim"}, "source needs work and where"),
        (changed(unit="percent"), "unit: "),
        (changed(paper=[{"of": "WMT", "value": "high"}]), "'high'"),
        (changed(rule={"test": "at_least"}), "at_least needs threshold"),
        (changed(rule={"test": "within", "range": [2, 1]}), "lower end first"),
        (changed(study="99_none"), "study '99_none' is not known"),
        (changed(gates=["power"]), "power and the field effect"),
        (changed(role="rare"), "gate present"),
        (changed(gates=["converged"], unconverged="x"), "remove one"),
        (changed(settled="x", unconverged="x"), "settled is for the gate converged"),
        (changed(history=[CHANGE, CHANGE | {"until": "2026-11-01"}]), "oldest change first"),
        (changed(value="max(13/best[a].b)"), "needs no aggregate"),
        (changed(baseline="offset"), "add value"),
        (changed(superseded="a-claim"), "superseded names 'a-claim'"),
    ],
)
def test_a_fault_is_one_line_naming_the_claim(tmp_path, entry, said):
    with refused(re.escape(said), "claims.yml, a-claim"):
        load(written(tmp_path, entry))


def test_ids_are_used_once_and_files_are_yaml(tmp_path):
    with refused("a-claim is used twice"):
        load(written(tmp_path, ENTRY, ENTRY))
    (tmp_path / "claims.yml").write_text("claims: [", encoding="utf-8")
    with refused("not readable YAML"):
        load(tmp_path / "claims.yml")


def test_claims_about_a_text_are_marked_as_such():
    texts = {each.id for each in load().claims if (each.value or "").startswith("13/corpora[")}
    assert texts == {each.id for each in load().claims if each.kind is Kind.TEXT}


def test_the_published_ledger_covers_every_figure_and_table_that_it_must():
    ledger = load()
    for work, places in {
        "voita2019": ("Figure 1a", "Figure 1b", "Figure 1c", "Figure 3", "Figure 4", "2, 5",
                      "Table 1", "Figure 6", "Figure 7", "Figure 8", "Table 2", "Figure 9", "10"),
        "michel2019": (*(f"Figure {number}" for number in range(1, 6)), "Table 1", "Table 4"),
    }.items():  # fmt: skip
        where = " ".join(claim.where for claim in ledger.claims if claim.work == work)
        assert [place for place in places if place not in where] == []
    assert {claim.work for claim in ledger.claims} == set(ledger.works)
    cited = re.findall(r"@\w+\{(\w+),", (paths.BOOK / "references.bib").read_text("utf-8"))
    assert set(ledger.works) <= {*cited, "headbook"}
    parts = {claim.study for claim in ledger.claims if "16" <= claim.study[:2] < "30"}
    assert parts == {name for name in studies() if "16" <= name < "30"}
