"""The rows of a claim whose ledger entry points at cells of a published table."""

from pathlib import Path

import numpy as np
import pandas as pd

from headbook import cells, recipes, tables
from headbook.claims.ledger import Claim
from headbook.claims.published import RELEASED
from headbook.claims.verdict import COLUMNS, OPTIONAL, seed_text
from headbook.released import catalogue as released
from headbook.text.registry import registry
from headbook.types import UserError

LABELS = ("corpus", "target", "seed")


def rows(claim: Claim, root: Path | None = None) -> pd.DataFrame:
    """One row per model, with the columns of a claims table, from the cells that `value` names.

    The interval is that of the value's column, the baseline another column of the same row.
    Corpus, target language and seed are the table's own where it has a column `corpus`, else those
    of the model catalogue, with the table's seed if it has one; a column `closed` is taken over. A
    page that was never published gives no rows, nor does a claim without cells: the rule stands
    before the run.
    UserError for two rows of one model, for a model that is in no catalogue, and for the faults of
    a reference.
    """
    if claim.value is None:
        return pd.DataFrame(columns=[*COLUMNS])
    try:
        reference = cells.parse(claim.value)
        if not tables.entries(reference.page, root):
            return pd.DataFrame(columns=[*COLUMNS])
        found = cells.rows(reference, root)
        named = {"value": reference.column, "baseline": claim.baseline}
        named |= {end: f"{reference.column}_{end}" for end in ("low", "high")}
        if lacking := {"model", claim.baseline} - {None, *found}:
            raise UserError(f"{reference}: the table has no column {lacking.pop()}")
        labels = found.reindex(columns=[*LABELS]).astype(object).fillna("")
        if "corpus" not in found:
            known = pd.DataFrame(map(_labels, found["model"]), found.index, [*LABELS])
            labels = known.assign(**{name: labels[name] for name in LABELS if name in found})
    except UserError as fault:
        raise UserError(f"claim {claim.id}: {fault}") from None
    labels["seed"] = labels["seed"].map(seed_text)
    numbers = {name: found.get(column, np.nan) for name, column in named.items()}
    frame = labels.assign(claim=claim.id, model=found["model"], **numbers)
    if (repeated := frame.duplicated(["model", *LABELS])).any():
        twice = frame["model"][repeated].iloc[0]
        raise UserError(f"claim {claim.id}: {reference} leaves two rows of {twice}; add a key")
    closed = {name: found[name].astype(object).fillna("") for name in OPTIONAL if name in found}
    return frame.assign(**closed)[[*COLUMNS, *closed]].reset_index(drop=True)


def _labels(model: str) -> dict[str, str]:
    """Corpus, target language and seed of a model by its name."""
    if model in (known := released.catalogue()):
        languages = known[model].languages
        return dict(zip(LABELS, (RELEASED, languages[1] if languages[1:] else "", ""), strict=True))
    recipe = recipes.recipe(model.partition("@")[0])  # a snapshot has the model's
    corpus = Path(recipe.corpus).name
    target = registry()[corpus].target if recipe.task == recipes.TRANSLATION else ""
    return dict(zip(LABELS, (corpus, target, str(recipe.seed)), strict=True))
