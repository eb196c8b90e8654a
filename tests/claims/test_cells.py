"""The rows of a claim are the cells of a published table that it points at."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from published_table import put
from refusing import refused

from headbook.claims import cells
from headbook.claims.ledger import Claim, load

DOBJ = "voita-t1-dobj-head-to-dependent"
VALUE = "13/best[text=ud-ewt; question=verb → object]"
BEST = """\
model,text,question,value,value_low,value_high,offset
firefox-en-pt,ud-ewt,verb → object,0.66,0.63,0.69,0.35
minilm,ud-ewt,verb → object,0.55,0.52,0.58,0.36
mixture-fr-256-seed1,ud-ewt,verb → object,0.33,,,0.35
minilm,pud,verb → object,0.9,0.8,0.95,0.3
"""


def claim(value: str | None = VALUE, baseline: str | None = "offset") -> Claim:
    return replace(load().claim(DOBJ), value=value, baseline=baseline)


def test_rows_have_labels_interval_and_baseline(tmp_path: Path) -> None:
    rows = cells.rows(claim(), put(tmp_path, "13/best", BEST))
    student, bert, ours = rows
    assert student == {
        "model": "firefox-en-pt", "corpus": "released", "target": "pt", "seed": "",
        "value": 0.66, "low": 0.63, "high": 0.69, "baseline": 0.35,
        "closed": None,
    }  # fmt: skip
    assert (bert["corpus"], bert["target"], bert["seed"]) == ("released", "", "")
    assert (ours["corpus"], ours["target"], ours["seed"]) == ("mixture-fr", "fr", "1")
    assert pd.isna([ours["low"], ours["high"]]).all()


def test_another_column_brings_its_own_interval_and_no_baseline(tmp_path: Path) -> None:
    rows = cells.rows(claim(f"{VALUE}.offset", None), put(tmp_path, "13/best", BEST))
    assert [each["value"] for each in rows] == [0.35, 0.36, 0.35]
    assert pd.isna([each[end] for each in rows for end in ("low", "high", "baseline")]).all()


def test_columns_of_the_table_win_over_the_catalogue(tmp_path: Path) -> None:
    table = "model,corpus,seed,closed,value\nminilm,mine,3,present: none,0.5\nminilm,mine,4,,0.5\n"
    row, other = cells.rows(claim("13/best[]", None), put(tmp_path, "13/best", table))
    assert (row["corpus"], row["target"], row["closed"]) == ("mine", "", "present: none")
    assert (row["seed"], other["seed"]) == ("3", "4")


@pytest.mark.parametrize(
    ("value", "baseline", "said"),
    [
        ("13/best[question=verb → object]", None, "two rows of minilm"),
        (VALUE, "offsets", "offsets"),
        ("13/rest[]", None, "best"),
        ("13/strange[]", None, "firefox-en-p"),
    ],
)
def test_faults_name_the_claim(tmp_path: Path, value: str, baseline: str | None, said: str) -> None:
    put(tmp_path, "13/strange", "model,value\nfirefox-en-p,1\n")
    with refused(f"{DOBJ}.*{said}"):
        cells.rows(claim(value, baseline), put(tmp_path, "13/best", BEST))
