"""Claims about fine-tuning, over trainings of one model."""

import numpy as np
import pandas as pd

from headbook.artefacts.catalogue import is_named
from headbook.chapters.chapter import Tables
from headbook.chapters.tables import claims_table, released_claim
from headbook.chapters.your_own_model import _retrained as pruning
from headbook.claims.gates import NONE
from headbook.claims.ledger import Gate
from headbook.statistics import over_seeds

BEFORE, TRUE, SHUFFLED = "before", "true labels", "shuffled labels"
TWICE = "two trainings"
FEWEST = 3
"""Heads with a role that the upper half of the layers needs, so that one does not stand for all."""
OF_MOVEMENT = ("tuning-last-layers", "tuning-beyond-seeds")
"""Claims that ask how far heads moved, whatever was learnt."""
POLAR_HEADS = 0.25
"""Share of the heads that count as turned to polar words: those with the largest preference."""


def claims(tables: Tables, chance: float) -> pd.DataFrame:
    """One row per claim of one model, intervals over trainings.

    `chance` is the share of the test sentences that have the larger class. A model that fine-tuning
    teaches nothing beyond it is asked only how far its heads moved.
    """
    model, corpus = (tables["heads"][name].iloc[0] for name in ("model", "corpus"))
    rows: list[dict[str, object]] = []
    right = tables["removed"].query("labels == @TRUE and removed == 'none'")["accuracy"]
    learnt = over_seeds(right.to_numpy(dtype=float))
    nothing = "" if learnt.low > chance else (
        f"{Gate.PRESENT}: fine-tuned, it gets {learnt.mean:.0%} of the sentences right, where the "
        f"larger class has {chance:.0%}")  # fmt: skip
    ungated = "" if is_named(model) else NONE  # Of ours the ledger's gates are looked at.

    def add(claim: str, values: pd.Series, closed: str = "") -> None:
        found = over_seeds(np.asarray(values, dtype=float))
        if not closed and claim not in OF_MOVEMENT:
            closed = nothing
        rows.append(released_claim(claim, model, found.mean, found.low, found.high,
                                   corpus=corpus, closed=closed or ungated))  # fmt: skip

    moved = tables["moved"]
    by_layer = moved[moved["labels"] == TRUE].groupby(["seed", "layer"])["distance"].mean()
    by_layer = by_layer.unstack()
    third = max(by_layer.shape[1] // 3, 1)
    last, others = by_layer.iloc[:, -third:], by_layer.iloc[:, :-third]
    add("tuning-last-layers", last.mean(axis=1) - others.mean(axis=1))
    means = moved.groupby(["labels", "seed"])["distance"].mean()
    add("tuning-beyond-shuffled", means[TRUE] - means[SHUFFLED])
    add("tuning-beyond-seeds", means[TRUE] - means[TWICE].mean())
    wide = tables["heads"].groupby(["labels", "seed"])[["polar", "negators"]].mean()
    for claim, name in (("tuning-polar", "polar"), ("tuning-negation", "negators")):
        add(claim, wide.loc[TRUE, name] - wide.loc[SHUFFLED, name])
    nats = tables["removed"].pivot(index=["labels", "seed"], columns="removed", values="nats")
    add("tuning-late-heads", nats.loc[TRUE, "late"] - nats.loc[TRUE, "early"])
    after = tables["heads"].query("labels == @TRUE")
    ratios = contributions(after, tables["roles"])
    add("tuning-specialised-contribute", ratios["all"])
    special = tables["roles"].drop_duplicates(["layer", "head"])
    add("tuning-specialised-later", ratios["upper"] - ratios["lower"],
        _few(special["layer"], int(after["layer"].max()) // 2))  # fmt: skip
    add("tuning-polar-heads", ratios["polar"])
    if "retrained" in tables:
        cost = gained(tables, "nats")
        add("tuning-removed-before", cost[pruning.AFTER].mean(axis=1)
            - cost[pruning.BEFORE].mean(axis=1))  # fmt: skip
        accuracy = gained(tables, "accuracy")[pruning.BEFORE]
        add("tuning-random-nearly-whole", accuracy[pruning.DRAWN])
        thirds_alone = accuracy.drop(columns=pruning.DRAWN)
        worst = thirds_alone[thirds_alone.mean().idxmin()]
        add("tuning-any-third", worst - accuracy[pruning.DRAWN])
    return claims_table(rows)


def _few(layers: pd.Series, half: int) -> str:
    """Closes the gate where a half of the layers has too few heads with a role to be compared."""
    above = int((layers > half).sum())
    if above < FEWEST:
        return (f"{Gate.PRESENT}: {above} of the upper half's heads hold a role, "
                f"{FEWEST} are needed")  # fmt: skip
    return "" if above < len(layers) else f"{Gate.PRESENT}: no head of the lower half holds a role"


def gained(tables: Tables, score: str) -> pd.DataFrame:
    """A score without each set minus that of the whole fine-tuned encoder.

    One row per seed, columns (when, removed): before fine-tuning, or after it.
    """
    wide = tables["retrained"].pivot(index="seed", columns=["when", "removed"], values=score)
    whole = wide.pop((pruning.AFTER, pruning.NONE))
    return wide.sub(whole, axis=0)


def contributions(heads: pd.DataFrame, of_roles: pd.DataFrame) -> pd.DataFrame:
    """Log₂ of the importance of special heads over that of the others of their layer, per seed.

    `all`, `lower`, `upper`: heads that hold a role, in all layers, in the lower and in the upper
    half; `polar`: those with the largest preference for polar words. Mean over layers that have
    heads of both sorts.
    """
    special = set(zip(of_roles["layer"], of_roles["head"], strict=True))
    found = []
    for seed, own in heads.groupby("seed"):
        own = own.assign(
            special=[key in special for key in zip(own["layer"], own["head"], strict=True)],
            turned=own["polar"] >= own["polar"].quantile(1 - POLAR_HEADS),
        )
        half = own["layer"].max() // 2
        found.append({
            "seed": seed,
            "all": _ratio(own, "special"),
            "lower": _ratio(own[own["layer"] <= half], "special"),
            "upper": _ratio(own[own["layer"] > half], "special"),
            "polar": _ratio(own, "turned"),
        })  # fmt: skip
    return pd.DataFrame(found).set_index("seed")


def _ratio(own: pd.DataFrame, column: str) -> float:
    mean = own.groupby(["layer", column])["importance"].mean().unstack()
    if mean.shape[1] < 2:
        return float("nan")
    return float(np.log2(mean[True] / mean[False]).mean())
