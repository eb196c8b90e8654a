"""Page 13, models trained here: heads that follow a syntactic relation."""

from collections.abc import Iterator
from itertools import product

import pandas as pd
import torch

from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measurements
from headbook.chapters.specialised_heads._head_tables import best_rows, verbs_lead
from headbook.chapters.tables import claim_row, stacked
from headbook.claims.ledger import load as ledger
from headbook.heads.measure import Selection, best_head
from headbook.heads.offset_baseline import offset_baseline
from headbook.heads.syntactic import best_accuracies
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.trees import RELATION_DIRECTIONS

SUBJECTS = [relation == "nsubj" for relation, _ in RELATION_DIRECTIONS]


def trained_here(config: Config, store: Store) -> Tables:
    """Best heads and baselines on every text, and the gain by luck."""
    found = list(measurements(config, store, config.texts, updates=(None, 0)))
    own = [each for each in found if each.text.name == HELD_OUT and each.run.update is None]
    return {
        "best": stacked(_with_everything(each) for each in found),
        "claims": pd.DataFrame([*_claims(own), *_domain_claims(own)]),
    }


def _with_everything(measurement: Measurement) -> pd.DataFrame:
    """`best_rows`, and what choosing and scoring on all sentences gives, as the paper does."""
    everything = best_head(measurement.sums["syntactic"], Selection.EVERYTHING)
    baseline = offset_baseline(measurement.sums["offsets"], Selection.EVERYTHING)
    return best_rows(measurement).assign(
        everything=everything.score.tolist(),
        everything_low=everything.low.tolist(),
        everything_high=everything.high.tolist(),
        everything_baseline=baseline.accuracy.tolist(),
    )


def _claims(own: list[Measurement]) -> Iterator[dict[str, object]]:
    """Per model: the eight accuracies, and by how much the verb's relations lead."""
    for each in own:
        best = best_rows(each)
        for row in best.to_dict("records"):
            claim = f"voita-t1-{row['relation']}-{row['direction'].replace('_', '-')}"
            numbers = {name: row[name] for name in ("value", "low", "high", "baseline")}
            yield claim_row(claim, each.labels, **numbers)
        yield claim_row("voita-f4-verb-relations-strongest", each.labels, *verbs_lead(best))


def _domain_claims(own: list[Measurement]) -> Iterator[dict[str, object]]:
    """Subjects in short sentences minus subjects in long ones, pair by pair of models."""
    domains = ledger().domains
    short, long = ([each for each in own if each.trained.run.corpus.split("-")[0] in domains[name]]
                   for name in ("short", "long"))  # fmt: skip
    pairs = list(product(short, long))
    same = [(one, two) for one, two in pairs if one.labels["target"] == two.labels["target"]]
    for one, two in same or pairs:
        first, second = (
            best_accuracies(each.sums["syntactic"])[:, SUBJECTS].mean(1) for each in (one, two)
        )
        # Both texts number their sentences from 0; shifted, their resamples are independent.
        second = torch.cat([second[:1], second[1:].roll(1)])
        labels = {**one.labels, "model": f"{one.labels['model']} minus {two.labels['model']}"}
        yield claim_row("voita-t1-nsubj-easier-in-short", labels, *interval(first - second))
