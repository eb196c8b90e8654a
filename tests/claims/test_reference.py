"""No verdict has moved from the reference without a row that says why.

`reference.csv` has the verdicts of commit ff4399dd, before the pages measured what they show. Rows
of data/claims/mended.csv (rules and gates) and of data/claims/moved.csv (all else) name each claim
that has another one since; the last of them tells which. Claims that came later are listed here,
but for those of part 7, which are all new. What these files call "not run" is "not judged" now.
"""

from io import StringIO
from pathlib import Path

import pandas as pd

from headbook.claims import board, scorecard
from headbook.paths import DATA

NEW = {"single-losses-beat-importance"}
TODAY = "70"
"""The first page of part 7."""


def table(path: Path) -> pd.DataFrame:
    text = path.read_text("utf-8").replace("not run", "not judged")
    return pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)


def test_every_verdict_is_the_reference_s_or_a_row_says_why() -> None:
    known = table(Path(__file__).with_name("reference.csv")).set_index("claim")["verdict"]
    results = scorecard.current()
    new = {name for name in results if name not in known}
    assert {name for name in new if results[name].claim.study < TODAY} == NEW
    assert set(known.index) <= set(results)
    moved = table(DATA / "claims" / "moved.csv").rename(columns={"what": "claim"})
    rows = pd.concat([table(DATA / "claims" / "mended.csv"), moved])
    assert (rows["reason"] != "").all()
    last = rows.drop_duplicates("claim", keep="last").set_index("claim")["after"]
    wrong = {}
    for name, was in known.items():
        now = board.mark_of(results[name])
        told = last.get(name, was)
        if now != was and not told.startswith(now):
            wrong[name] = f"{was} in the reference, {now} now, {told} in the last row"
    assert wrong == {}
