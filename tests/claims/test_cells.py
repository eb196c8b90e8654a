"""Claims that point at cells have the rows, and the verdicts, of those published as claims."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from published import plant
from published_table import put

from headbook.claims import cells, scorecard
from headbook.claims.ledger import Claim, Ledger, load
from headbook.claims.rule import Outcome
from headbook.claims.verdict import Verdict
from headbook.types import UserError

DOBJ = "voita-t1-dobj-head-to-dependent"
VALUE = "13/best[text=ud-ewt; question=verb → object]"
BEST = """\
model,text,question,value,value_low,value_high,offset
firefox-en-pt,ud-ewt,verb → object,0.66,0.63,0.69,0.35
minilm,ud-ewt,verb → object,0.55,0.52,0.58,0.36
mixture-fr-256-seed1,ud-ewt,verb → object,0.33,,,0.35
minilm,pud,verb → object,0.9,0.8,0.95,0.3
"""


def published(root: Path, table: str = BEST, name: str = "best") -> Path:
    return put(root, f"13/{name}", table)


def claim(value: str | None = VALUE, baseline: str | None = "offset") -> Claim:
    return replace(load().claim(DOBJ), value=value, baseline=baseline)


def test_rows_have_labels_interval_and_baseline(tmp_path: Path) -> None:
    rows = cells.rows(claim(), published(tmp_path))
    student, bert, ours = rows.to_dict("records")
    assert student == {
        "claim": DOBJ, "model": "firefox-en-pt", "corpus": "released", "target": "pt", "seed": "",
        "value": 0.66, "low": 0.63, "high": 0.69, "baseline": 0.35,
    }  # fmt: skip
    assert (bert["corpus"], bert["target"], bert["seed"]) == ("released", "", "")
    assert (ours["corpus"], ours["target"], ours["seed"]) == ("mixture-fr", "fr", "1")
    assert pd.isna([ours["low"], ours["high"]]).all()


def test_another_column_brings_its_own_interval_and_no_baseline(tmp_path: Path) -> None:
    rows = cells.rows(claim(f"{VALUE}.offset", None), published(tmp_path))
    assert list(rows["value"]) == [0.35, 0.36, 0.35]
    assert rows[["low", "high", "baseline"]].isna().all(axis=None)


def test_columns_of_the_table_win_over_the_catalogue(tmp_path: Path) -> None:
    table = "model,corpus,seed,closed,value\nminilm,mine,3,present: none,0.5\n"
    (row,) = cells.rows(claim("13/best[]", None), published(tmp_path, table)).to_dict("records")
    assert (row["corpus"], row["target"], row["closed"]) == ("mine", "", "present: none")
    assert row["seed"] == "3"


@pytest.mark.parametrize(
    ("value", "baseline", "said"),
    [
        ("13/best[question=verb → object]", None, "two rows of minilm"),
        (VALUE, "offsets", "offsets"),
        (f"{VALUE}.valu", None, "valu"),
        ("13/best[text=ud]", None, "ud-ewt"),
        ("13/rest[]", None, "best"),
    ],
)
def test_faults_name_the_claim(tmp_path: Path, value: str, baseline: str | None, said: str) -> None:
    with pytest.raises(UserError, match=DOBJ) as fault:
        cells.rows(claim(value, baseline), published(tmp_path))
    assert said in str(fault.value)


def test_a_model_of_no_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{DOBJ}.*firefox-en-p"):
        cells.rows(claim("13/best[]", None), published(tmp_path, "model,value\nfirefox-en-p,1\n"))


def test_seeds_in_a_column_are_rows_of_one_model(tmp_path: Path) -> None:
    table = "model,seed,value\nmixture-fr-256,0,0.5\nmixture-fr-256,1,0.6\n"
    rows = cells.rows(claim("13/best[]", None), published(tmp_path, table))
    assert list(rows["seed"]) == ["0", "1"] and set(rows["corpus"]) == {"mixture-fr"}


def pointing(ledger: Ledger) -> Ledger:
    """The ledger with this claim alone, pointing at cells."""
    return replace(ledger, claims=(claim(),))


def test_the_scorecard_reads_cells_as_it_reads_claims(tmp_path: Path) -> None:
    by_cells = scorecard.tidy(published(tmp_path), pointing(load()))
    rows = cells.rows(claim(), tmp_path)
    plant(tmp_path / "as claims", "laptop", "13_syntactic_heads", {"claims": rows})
    ledger = replace(load(), claims=(claim(None, None),))
    pd.testing.assert_frame_equal(by_cells, scorecard.tidy(tmp_path / "as claims", ledger))
    assert list(by_cells["outcome"])[:2] == [Outcome.PASS] * 2
    now = scorecard.current(tmp_path, pointing(load()))
    assert scorecard.stated(now) == {DOBJ: by_cells["verdict"].iloc[0]} == {DOBJ: "replicated"}


def test_a_claim_with_cells_and_rows_of_its_own_is_refused(tmp_path: Path) -> None:
    rows = cells.rows(claim(), published(tmp_path))
    plant(tmp_path, "laptop", "13_syntactic_heads", {"claims": rows})
    with pytest.raises(UserError, match=DOBJ):
        scorecard.read(pointing(load()), tmp_path)


def test_a_number_that_moves_moves_the_verdict(tmp_path: Path) -> None:
    low = BEST.replace("0.66,0.63,0.69", "0.36,0.33,0.39").replace("0.55,0.52,0.58", "0.3,0.2,0.4")
    found = scorecard.current(published(tmp_path, low), pointing(load()))
    assert found[DOBJ].verdict is Verdict.CONTRADICTED
