"""The table of every head: its rows are the published ones, and its dictionary explains them."""

import pandas as pd
import pytest
from refusing import refused

from headbook import results
from headbook.publishing import heads

KEYS = ["model", "kind", "layer", "head", "measure"]


@pytest.fixture(scope="module")
def every() -> pd.DataFrame:
    return heads.every_head()


def test_every_measure_is_there_and_every_number_is_one(every: pd.DataFrame) -> None:
    assert {*every["measure"]} == {each["measure"] for each in heads.dictionary()}
    assert every[[*KEYS, "page"]].notna().all(axis=None)


def test_rows_are_the_published_ones(every: pd.DataFrame) -> None:
    published = results.published(20, "heads")
    mine = every[every["measure"] == "BLEU without it"]
    assert len(mine) == published["change"].count()
    which = "model == 'firefox-en-pt' and kind == 'cross' and sentences == 200"
    (one,) = published.query(f"{which} and head == 'cross L2H7'").to_dict("records")
    (row,) = mine.query(f"{which} and layer == 2 and head == 7").to_dict("records")
    assert [row[end] for end in ("value", "low", "high", "text", "page")] == [
        *(one[end] for end in ("change", "change_low", "change_high", "text")), 20
    ]  # fmt: skip


def test_an_entry_that_does_not_say_which_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("special", "two values of one head"), ("nothing", "no column 'nothing'")):
        entry = {"measure": "special", "from": f"50/heads.{name}"}
        monkeypatch.setattr(heads, "dictionary", lambda entry=entry: [entry])
        with refused(said):
            heads.every_head()


def test_the_page_explains_each_measure() -> None:
    page = heads.page()
    assert all(f"\n| {each['measure']} | " in page for each in heads.dictionary())
    code = page.split("```python\n")[1].split("```")[0]
    compile(code, "page", "exec")
