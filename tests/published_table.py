"""Published tables made in a test, the record of their digests beside them, and their verdicts."""

import hashlib
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pandas as pd

from headbook import tables
from headbook.claims import scorecard
from headbook.claims.ledger import load
from headbook.claims.verdict import Verdict


def put(root: Path, name: str, text: str) -> Path:
    """Write a table called as in 13/best under a folder of results; returns that folder."""
    page, _, table = name.partition("/")
    (root / page).mkdir(parents=True, exist_ok=True)
    (root / page / f"{table}.csv").write_text(text, encoding="utf-8")
    frame = pd.read_csv(StringIO(text))
    entry = {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "rows": len(frame),
        "text": list(frame.select_dtypes(exclude="number")),
    }
    file = root / page / "run.json"
    record = json.loads(file.read_text("utf-8")) if file.exists() else {"tables": {}}
    record["tables"][table] = entry
    file.write_text(json.dumps(record), encoding="utf-8")
    return root


def judged(frame: pd.DataFrame, root: Path, name: str, **more: object) -> Verdict:
    """The verdict of a claim, otherwise as in the ledger, where this table is what it reads."""
    put(root, "99/planted", tables.csv(frame))
    claim = replace(load().claim(name), value="99/planted[].value", **more)
    return scorecard.current(root, replace(load(), claims=(claim,)))[name].verdict
