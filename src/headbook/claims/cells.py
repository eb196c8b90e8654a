"""The rows of a claim whose ledger entry points at cells of a published table."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headbook import cells, recipes, tables
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import Claim
from headbook.released import catalogue as released
from headbook.text.registry import registry
from headbook.types import UserError

LABELS = ("corpus", "target", "seed")
Row = Mapping[str, Any]
"""Model, corpus, target, seed, value, low, high, baseline, and closed gates where a table has them.
"""


def rows(claim: Claim, root: Path | None = None) -> list[Row]:
    """One row per model, from the cells that `value` names.

    The interval is that of the value's column, the baseline another column of the same row.
    Corpus, target language and seed are the table's own where it has a column `corpus`, else those
    of the model catalogue, with the table's seed if it has one; a column `closed` is taken over. A
    page that was never published gives no rows, nor does a claim without cells: the rule stands
    before the run.
    UserError for two rows of one model, for a model that is in no catalogue, and for the faults of
    a reference.
    """
    if claim.value is None:
        return []
    try:
        reference = cells.parse(claim.value)
        if not tables.entries(reference.page, root):
            return []
        table = cells.rows(reference, root)
        if lacking := {"model", claim.baseline} - {None, *table}:
            raise UserError(f"{reference}: the table has no column {lacking.pop()}")
        found = [_row(claim, reference.column, each) for each in table.to_dict("records")]
    except UserError as fault:
        raise UserError(f"claim {claim.id}: {fault}") from None
    counted = Counter(tuple(each[name] for name in ("model", *LABELS)) for each in found)
    for (model, *_), count in counted.items():
        if count > 1:
            raise UserError(f"claim {claim.id}: {reference} leaves two rows of {model}; add a key")
    return found


def _row(claim: Claim, column: str, cells: Row) -> Row:
    own = {name: "" if pd.isna(cells[name]) else cells[name] for name in LABELS if name in cells}
    known = dict.fromkeys(LABELS, "") if "corpus" in cells else _labels(cells["model"])
    labels = {"model": cells["model"], **known, **own}
    labels["seed"] = _seed(labels["seed"])
    ends = {end: cells.get(f"{column}_{end}", np.nan) for end in ("low", "high")}
    numbers = {"value": cells[column], **ends, "baseline": cells.get(claim.baseline, np.nan)}
    return labels | numbers | {"closed": cells.get("closed")}


def _labels(model: str) -> dict[str, str]:
    """Corpus, target language and seed of a model by its name."""
    if model in (known := released.catalogue()):
        languages = known[model].languages
        return dict(zip(LABELS, (RELEASED, languages[1] if languages[1:] else "", ""), strict=True))
    recipe = recipes.recipe(model.partition("@")[0])  # a snapshot has the model's
    corpus = Path(recipe.corpus).name
    target = registry()[corpus].target if recipe.task == recipes.TRANSLATION else ""
    return dict(zip(LABELS, (corpus, target, str(recipe.seed)), strict=True))


def _seed(seed: object) -> str:
    """A row's seed as it was given: a column with a gap holds 0 as 0.0."""
    return str(int(seed)) if isinstance(seed, float) else str(seed)
