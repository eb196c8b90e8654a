"""Worlds in which a claim is so and in which it is not, judged as published rows are.

A world is planted upstream of a page's own functions: in the weights of heads, in the translations
without a head, in the looks at a training. `outcomes` judges the rows that the page makes of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from headbook.claims.gates import NONE
from headbook.claims.ledger import Claim, Kind, Ledger, load
from headbook.claims.published import Evidence
from headbook.claims.rule import AGAINST_BASELINE, Outcome, judge
from headbook.claims.verdict import COLUMNS, judged

Row = Mapping[str, object]
Rows = Iterable[Row]
BEYOND = 1e-6
NOTHING = Evidence(Path("no published table"))


@lru_cache(maxsize=1)
def ledger() -> Ledger:
    return load()


def counted(file: Callable[[str], bool]) -> dict[str, Claim]:
    """Findings in force of the pages whose name passes `file`, by id."""
    return {
        each.id: each
        for each in ledger().claims
        if each.kind is Kind.FINDING and not each.superseded and file(each.study)
    }


@dataclass(frozen=True, eq=False)
class World:
    """One planted input: `make(True)` holds what the claims say, `make(False)` does not.

    Either gives rows as the page's claims table has them.
    """

    claims: tuple[str, ...]
    make: Callable[[bool], Rows]

    @lru_cache(maxsize=4)  # noqa: B019 (worlds live as long as the tests)
    def rows(self, so: bool) -> pd.DataFrame:
        """The rows of every claim; claims that the page makes beside those asked are kept."""
        made = pd.DataFrame(list(self.make(so))).reindex(columns=[*COLUMNS, "closed"])
        closed = [each if isinstance(each, str) and each else NONE for each in made["closed"]]
        return made.assign(closed=closed)


def outcomes(world: World, claim: str, so: bool) -> list[Outcome]:
    """Outcome of each model of the claim, its seeds pooled: gates are open unless the page closes
    them, so that the rule alone decides."""
    rows = world.rows(so)
    rows = rows[rows["claim"] == claim].reset_index(drop=True)
    return [each.outcome for each in judged(ledger(), ledger().claim(claim), rows, NOTHING)]


def numbers_of_the_work(claim: Claim) -> Iterable[tuple[str, Outcome]]:
    """What the rule says of each number that the ledger has of the work, taken as known exactly.

    Where the rule is of a difference, the work's baseline is subtracted. Of a bound, "more than",
    the number is just beyond it.
    """
    for each in claim.paper:
        for value in each.values:
            known = each.baseline is not None
            shift = each.baseline if known and claim.rule.test not in AGAINST_BASELINE else 0.0
            number = value - shift + (BEYOND if each.of.endswith("more than") else 0.0)
            ends = dict.fromkeys(("value", "low", "high"), number)
            baseline = each.baseline if known else np.nan
            yield f"{each.of}: {value:g}", judge(claim.rule, {**ends, "baseline": baseline})


def labels(
    model: str = "planted", corpus: str = "planted", target: str = "pt", seed: object = ""
) -> dict[str, object]:
    """The columns that say whose row it is."""
    return {"model": model, "corpus": corpus, "target": target, "seed": seed}


def claim_row(
    claim: str,
    labels: dict[str, object],
    value: float,
    low: float = np.nan,
    high: float = np.nan,
    baseline: float = np.nan,
) -> Row:
    """One row of a claim; NaN where there is no number."""
    named = {name: labels[name] for name in ("model", "corpus", "target", "seed")}
    numbers = {"value": value, "low": low, "high": high, "baseline": baseline}
    return {"claim": claim, **named, **numbers}


def standing_in(cls: type, **attributes: object) -> object:
    """An object of a class without its construction: it has these attributes, and what the class
    computes of them."""
    return object.__new__(type(f"Planted{cls.__name__}", (cls,), attributes))
