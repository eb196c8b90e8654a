"""Published tables made in a test: the CSV, and the record of its digest beside it."""

import hashlib
import json
from io import StringIO
from pathlib import Path

import pandas as pd


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
