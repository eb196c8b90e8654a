"""Page 11, models trained here: confidence and roles of every head."""

from collections.abc import Iterator

import pandas as pd

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measurements, models
from headbook.chapters.specialised_heads._head_tables import head_scores, role_rows
from headbook.chapters.tables import claim_row, stacked
from headbook.heads.positional import Place
from headbook.heads.roles import Role, Thresholds
from headbook.runs.store import Store
from headbook.statistics import interval

CONFIDENT = 0.70
"""The ledger's threshold of a confident head (claim voita-f1b-few-confident)."""
NEIGHBOURS = {"-1", "+1"}


def trained_here(config: Config, store: Store) -> Tables:
    """Scores and roles of every head, and how they came about."""
    found = list(measurements(config, store, updates=(None, 0)))
    best = [each for each in found if each.run.update is None]
    roles = stacked(role_rows(each) for each in found)
    return {
        "scores": stacked(head_scores(each) for each in found),
        "roles": roles[roles["held"]].drop(columns="held").reset_index(drop=True),
        "training": stacked(_through_training(config, store)),
        "claims": pd.DataFrame([row for each in best for row in _claims(each)]),
    }


def _through_training(config: Config, store: Store) -> Iterator[pd.DataFrame]:
    for model in models(config, store):
        updates = [0, *model.snapshots]
        for each in measurements(config, store, updates=updates, runs=[model.run]):
            yield _summary(each).assign(update=each.run.update)


def _summary(measurement: Measurement) -> pd.DataFrame:
    """One row: the sharpest head of each sort, and how many heads hold each role."""
    scores = head_scores(measurement)
    encoder = scores[scores["kind"] == "encoder"]
    roles = role_rows(measurement)
    held = roles[roles["held"]].drop_duplicates(["layer", "head", "role"])["role"].value_counts()
    return pd.DataFrame(
        [
            {
                **measurement.labels,
                "mean_confidence": encoder["confidence"].mean(),
                "largest_confidence": encoder["confidence"].max(),
                **{f"largest_{place}": encoder[place].max() for place in Place},
                "largest_margin": encoder["margin"].max(),
                "largest_rare": encoder["rare"].max(),
                **{f"{role}_heads": int(held.get(role, 0)) for role in Role},
            }
        ]
    )


def _claims(measurement: Measurement) -> Iterator[dict[str, object]]:
    labels, scores = measurement.labels, head_scores(measurement)
    scores = scores[scores["kind"] == "encoder"].set_index(["layer", "head"])
    roles = role_rows(measurement)
    roles = roles[roles["held"]]
    positional = roles[roles["role"] == Role.POSITIONAL]
    heads = list(dict.fromkeys(zip(positional["layer"], positional["head"], strict=True)))
    yield _least_confident(labels, scores, heads)
    confident = scores["confidence"] >= CONFIDENT
    yield claim_row("voita-f1b-few-confident", labels, float(confident.mean()))
    top = list(scores["confidence"].nlargest(len(heads)).index)
    shared = len(set(top) & set(heads)) / len(heads) if heads else float("nan")
    yield claim_row("voita-f1b-confident-are-positional", labels, shared)
    yield _rare_head_confidence(measurement)
    yield claim_row("voita-f1c-positional", labels, float(len(heads)))
    yield claim_row("voita-f1c-positional-adjacent", labels, _adjacent(scores))
    covered = len(NEIGHBOURS & set(positional["detail"]))
    yield claim_row("voita-f1c-both-neighbours", labels, float(covered))
    for claim, role in (("voita-f1c-syntactic", Role.SYNTACTIC), ("voita-f1c-rare", Role.RARE)):
        holders = roles[roles["role"] == role].drop_duplicates(["layer", "head"])
        yield claim_row(claim, labels, float(len(holders)))
    without = 1 - len(roles.drop_duplicates(["layer", "head"])) / len(scores)
    yield claim_row("voita-f1c-unclassified", labels, without)


def _adjacent(scores: pd.DataFrame) -> float:
    """Of the heads at one fixed offset, whichever it is, the share of those at a neighbour."""
    fixed = scores[[*Place]] >= Thresholds().positional
    heads = fixed[fixed.any(axis=1)]
    return float(heads[Place.NEIGHBOUR].mean()) if len(heads) else float("nan")


def _least_confident(
    labels: dict[str, object], scores: pd.DataFrame, heads: list[tuple[int, int]]
) -> dict[str, object]:
    """The least confident positional head, with its own interval."""
    claim = "voita-f1b-positional-confident"
    if not heads:
        return claim_row(claim, labels, float("nan"))
    least = scores.loc[heads].nsmallest(1, "confidence").iloc[0]
    return claim_row(claim, labels, *least[["confidence", "confidence_low", "confidence_high"]])


def _rare_head_confidence(measurement: Measurement) -> dict[str, object]:
    """Confidence of the head that points most at rare tokens, minus the mean of all heads."""
    rare = measurement.sums["rare"].ratio()[..., 1].nan_to_num(-1)
    layer, head = divmod(int(rare.argmax()), rare.shape[1])
    replicates = measurement.sums["confidence/encoder"].replicates()
    difference = replicates[:, layer, head] - replicates.mean(dim=(1, 2))
    return claim_row("voita-f1b-rare-not-confident", measurement.labels, *interval(difference))
