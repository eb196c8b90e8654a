"""The table of every head: what the book measured of each, to take away, and its data dictionary.

`book/heads.yml` is the dictionary: it names the published table and column of every measure.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from headbook import paths, tables
from headbook.publishing.pages import table
from headbook.types import UserError

KEYS = ["model", "kind", "layer", "head", "measure", "text", "sentences"]
COLUMNS = {
    "model": "name in the book, as in `hb.load(name)`",
    "kind": "encoder, decoder or cross",
    "layer": "from the bottom, 1 is the first",
    "head": "in its layer, 1 is the first",
    "measure": "one of those below",
    "text": "name of the text, as in `hb.text(name)`, or test set; empty for weights alone",
    "sentences": "how many of it",
    "value": "in the unit of the measure",
    "low, high": "ends of the 95 % interval; empty where none was computed",
    "page": "of the book, where the measure is explained",
}
PAGE = """\
# Every head

One table to take away: what this book measured of each of {heads} heads of {models} models, {rows} rows. The models
are {names}; heads of today's models are on the pages of {{doc}}`part 7 </parts/7_today>`.
[CSV](../_static/heads.csv) · [Parquet](../_static/heads.parquet)

```python
import pandas as pd

heads = pd.read_parquet("heads.parquet")
one = heads[(heads["model"] == "minilm") & (heads["text"] == "ewt-sample")]
one.pivot_table(index=["layer", "head"], columns="measure", values="value")
```

## Columns

{columns}

## Measures

{measures}
"""  # noqa: E501


def dictionary() -> list[dict[str, Any]]:
    """The measures of the table: name, published table, column, rows, unit, meaning."""
    return yaml.safe_load((paths.BOOK / "heads.yml").read_text("utf-8"))


def every_head(root: Path | None = None) -> pd.DataFrame:
    """One row per head, measure and text that has a value: interval where there is one, page.

    UserError where the dictionary names a column that was not published, or rows that are not one
    per head.
    """
    rows = pd.concat([_rows(each, root) for each in dictionary()]).dropna(subset="value")
    if (twice := rows.duplicated(KEYS)).any():
        row = rows[twice].iloc[0]
        raise UserError(
            f"book/heads.yml: {row['measure']!r} has two values of one head of {row['model']}: "
            "say with `where` which is meant"
        )
    return rows.sort_values(["model", "kind", "layer", "head"], kind="stable", ignore_index=True)


def _rows(measure: Mapping[str, Any], root: Path | None) -> pd.DataFrame:
    source, column = measure["from"].split(".", 1)
    page, name = source.split("/")
    found = tables.typed(page, name, root)
    wanted = {column, *measure.get("where", {})}
    if missing := sorted(wanted - {*found}):
        raise UserError(f"book/heads.yml: {source} has no column {missing[0]!r}")
    for key, value in measure.get("where", {}).items():
        found = found[found[key] == value]
    head = found["head"].astype(str).str.extract(r"(\d+)$", expand=False).astype(int)
    new = {
        "kind": found.get("kind", measure.get("kind", "encoder")),
        "head": head,
        "measure": measure["measure"],
        "text": found.get("text", ""),
        "sentences": found.get("sentences"),
        "value": found[column].astype(float),
        "page": int(page),
    }
    new |= {end: found.get(f"{column}_{end}") for end in ("low", "high")}
    order = [*KEYS, "value", "low", "high", "page"]
    kinds = {"sentences": "Int64", "low": float, "high": float}
    return found[["model", "layer"]].assign(**new)[order].astype(kinds)


def write(folder: Path) -> None:
    """Write `heads.csv` and `heads.parquet`."""
    found = every_head()
    (folder / "heads.csv").write_text(tables.csv(found), encoding="utf-8")
    found.to_parquet(folder / "heads.parquet", index=False)


def page() -> str:
    """The page that offers the table and explains its columns."""
    found = every_head()
    heads = found[["model", "kind", "layer", "head"]].drop_duplicates()
    measures = [
        (each["measure"], each["unit"], each["means"], _notebook(each["from"]))
        for each in dictionary()
    ]
    return PAGE.format(
        heads=f"{len(heads):,}",
        models=heads["model"].nunique(),
        names=", ".join(f"`{name}`" for name in heads["model"].unique()),
        rows=f"{len(found):,}",
        columns=table(("column", "meaning"), [*COLUMNS.items()]),
        measures=table(("measure", "unit", "meaning", "page"), measures),
    )


def _notebook(source: str) -> str:
    (found,) = paths.NOTEBOOKS.glob(f"{source.partition('/')[0]}_*.ipynb")
    return f"{{doc}}`/_executed/{found.stem}`"
