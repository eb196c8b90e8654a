"""The claims of a page: its table, the fold of every claim, superseded ones apart."""

import html
import re
from dataclasses import replace
from datetime import date

import pandas as pd
import pytest

from headbook.chapters import claims
from headbook.chapters.page import Table
from headbook.claims import ledger
from headbook.claims.ledger import Change, Ledger, load
from headbook.claims.render import UNITS
from headbook.claims.verdict import COLUMNS, Verdict

LEDGER = load()
PAGE = "13_syntactic_heads"
CLAIM = LEDGER.claim("voita-t1-dobj-head-to-dependent")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with two claims, the first of them superseded by the second."""
    was = Change(date(2026, 11, 1), "More than <half> & less.", "It was a slip.")
    old = replace(CLAIM, id="old", claim="An old <b>claim</b>", superseded="new", history=(was,))
    new = replace(CLAIM, id="new", measure="Share of verbs.\n\nOf <all>.", history=())
    both = Ledger((old, new), LEDGER.works, LEDGER.domains)
    monkeypatch.setattr(claims, "load", lambda: both)


def row(claim: str, value: float) -> tuple:
    return (claim, "firefox-en-pt", "released", "pt", None, value, value - 0.05, value + 0.05, 0.4)


@pytest.fixture
def found(planted: None) -> claims.Claims:
    rows = pd.DataFrame([row("old", 0.9), row("new", 0.1)], columns=list(COLUMNS))
    return claims.judged(PAGE, rows.assign(closed="none"))


def folds(page: str) -> dict[str, str]:
    """Text of every fold by the anchor that its first link leads to."""
    inside = re.findall(r"<details><summary>.*?</details>", page)
    return {re.search(r'html#([^"]+)', each).group(1): each for each in inside}


def test_a_superseded_claim_stands_last_marked_and_not_counted(found: claims.Claims) -> None:
    assert [each.claim.id for each in found.results] == ["new", "old"]
    assert list(found.table["verdict"]) == ["✕ contradicted", "superseded (● replicated)"]
    assert found.counted == {Verdict.CONTRADICTED: 1}
    assert found.definitions.count("<summary>Superseded: ") == 1


def test_a_fold_has_measure_unit_rule_former_forms_and_a_link(found: claims.Claims) -> None:
    shown = folds(found.definitions)
    assert list(shown) == ["new", "old"]
    new, old = map(html.unescape, shown.values())
    assert "Measure: Share of verbs. Of <all>." in new
    assert f"Unit: {UNITS['share']}. Counts when {CLAIM.rule.in_words()}. {CLAIM.because}" in new
    assert 'href="../_generated/scorecard.html#new"' in new and "Until" not in new
    assert "Until 2026-11-01: More than <half> & less. Changed because: It was a slip." in old
    assert 'href="../_generated/scorecard.html#new">the claim in its place</a>' in old


def test_no_text_becomes_markup_and_nothing_is_loaded(found: claims.Claims) -> None:
    shown = Table(found.table, below=found.definitions)._repr_html_()
    assert "<b>" not in shown and "<all>" not in shown and "<half>" not in shown
    assert "http" not in shown and "src=" not in shown and "\n\n" not in found.definitions
    assert shown.endswith(found.definitions)


def test_a_page_without_claims_has_no_list(planted: None) -> None:
    nothing = claims.judged("60_five_lines", pd.DataFrame(columns=list(COLUMNS)))
    assert nothing.definitions == "" and not nothing.counted


@pytest.mark.parametrize("page", ["13_syntactic_heads", "26_when_heads_specialise"])
def test_every_claim_of_a_page_is_there_with_its_place_on_the_scorecard(page: str) -> None:
    found = claims.judged(page, pd.DataFrame(columns=list(COLUMNS)))
    shown = folds(found.definitions)
    mine = [each for each in LEDGER.claims if each.study == page]
    assert set(shown) == {each.id for each in mine} and len(mine) == len(found.table) > 3
    for each in mine:
        assert " ".join(each.measure.split()) in html.unescape(shown[each.id])


def test_every_unit_has_its_words() -> None:
    assert set(UNITS) == set(ledger.UNITS)
